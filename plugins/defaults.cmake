# The plugins of a run whose flags name none, and the ones that messages advise. The runtime knows no plugin by name: a
# distribution with other plugins sets these (cmake -DTESSERA_DEFAULT_STRATEGY=...). Each must be in the plugin folder.
set(TESSERA_DEFAULT_DEVICE "cpu" CACHE STRING "Without --device; also the host's side of a run on another device")
set(TESSERA_DEFAULT_COMMUNICATOR "gloo" CACHE STRING "Without --comm; takes the host's streams")
set(TESSERA_DEFAULT_STRATEGY "ddp" CACHE STRING "Without --strategy; fits every model, beside any other strategy")
