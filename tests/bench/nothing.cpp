// SPDX-License-Identifier: Apache-2.0
// A program that does nothing: what it costs to start it is what it costs to start any.
int main() { return 0; }
