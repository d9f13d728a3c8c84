import { setPriority } from 'node:os';

// A set-up file of suites that only compute. It triples the share of processor time of suites that wait for a processor
// beside them.
setPriority(5);
