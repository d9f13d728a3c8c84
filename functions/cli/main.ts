#!/usr/bin/env -S node --max-semi-space-size=4
// Bounds V8's young generation. Without a bound it grows to 32 MiB on the first burst and stays there, which costs 17
// KiB a stream at 1,000 streams. A frontend's garbage is short-lived strings, which a small one collects as well.
import { runCommandLine } from './run-command.ts';

// Sets the exit code instead of exiting, so that text written to a pipe leaves before the process does.
process.exitCode = await runCommandLine(process.argv.slice(2), process.env);
