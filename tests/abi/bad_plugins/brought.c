/* A library that a plugin brings along. */
const char* brought(void);
const char* brought(void) {
  return TEST_BROUGHT;
}
