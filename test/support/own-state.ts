import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import { killChildren } from './spawn-node.ts';

// Processes without a given meeting place use the user's state folder. Each suite has a state folder of its own, so its
// processes meet only each other, and never the user's.
const folder = mkdtempSync(join(tmpdir(), 'stator-state-'));
process.env.XDG_STATE_HOME = folder;
// No test asks the hub of models, or uses the models that the user has downloaded, unless it names a hub of its own.
process.env.HF_HOME = join(folder, 'huggingface');
process.env.HF_HUB_OFFLINE = '1';
afterAll(() => {
  killChildren(); // children of a suite that failed before it could end them
  rmSync(folder, { recursive: true, force: true });
});

// Code that adds listeners to one signal again and again and never removes them, which is a leak.
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
