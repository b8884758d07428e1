#pragma once

#include <string>

#include <gloo/transport/tcp/attr.h>

namespace tessera::gloo_comm {

/// Where this rank listens: the first address of `interface` ("eth0") if that is not empty, else loopback when all
/// ranks are local, else the address of this machine's host name. NOT_FOUND lists the interfaces there are;
/// FAILED_PRECONDITION when other machines could not reach the host name's address.
::gloo::transport::tcp::attr listen_address(bool is_local, const std::string& interface);

}  // namespace tessera::gloo_comm
