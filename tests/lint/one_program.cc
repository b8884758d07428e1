// The whole host and every plugin but those for GPUs in one program. Nothing runs: that it links is the test. The
// linker sees all types and functions at once there (-flto), and refuses a name that two files define in different ways
// (-Wodr), which is undefined behavior that no single compilation shows.
int main() {
  return 0;
}
