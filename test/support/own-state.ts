import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

// Processes that nobody tells where to meet do so with the user's other state: each suite's among themselves, and never the user's own.
const folder = mkdtempSync(join(tmpdir(), 'stator-state-'));
process.env.XDG_STATE_HOME = folder;
afterAll(() => rmSync(folder, { recursive: true, force: true }));
