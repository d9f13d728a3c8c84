import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import { killChildren } from './spawn-node.ts';

// Processes that nobody tells where to meet do so with the user's other state: each suite's among themselves, and never the user's own.
const folder = mkdtempSync(join(tmpdir(), 'stator-state-'));
process.env.XDG_STATE_HOME = folder;
afterAll(() => {
  killChildren(); // of a suite that failed before it could
  rmSync(folder, { recursive: true, force: true });
});

// Something listens to one signal again and again and never stops: a leak, wherever it is.
const leaks: string[] = [];
const onWarning = (warning: Error): void => {
  if (warning.name === 'MaxListenersExceededWarning') leaks.push(warning.stack ?? warning.message);
};
process.on('warning', onWarning);
const failOnLeak = (): void => {
  const [leak] = leaks.splice(0);
  if (leak !== undefined) throw new Error(`too many listeners: ${leak}`);
};
afterEach(failOnLeak);
afterAll(() => {
  process.off('warning', onWarning);
  failOnLeak();
});
