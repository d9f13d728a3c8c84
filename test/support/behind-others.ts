import { setPriority } from 'node:os';

// A set-up file of suites that only compute: what waits for a processor beside them has it three times as often.
setPriority(5);
