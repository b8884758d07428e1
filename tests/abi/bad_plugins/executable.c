/* A program, not a shared object. */
int main(void) {
  return 0;
}
