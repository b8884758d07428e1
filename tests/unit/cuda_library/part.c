int tessera_fake_part(void) {
  return 7;
}
