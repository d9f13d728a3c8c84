import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { defineWorker } from '../../../functions/sdk/worker.ts';
import { showConfig } from '../../../shared/commands/config.ts';

const folder = mkdtempSync(join(tmpdir(), 'sdk-worker-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('a worker from code decides as stator worker does', async () => {
  const path = join(folder, 'dump.json');
  const flags = ['--namespace', 'code', '--block-size', '8', '--dump-config-to', path];
  const env = { DYN_LOG: 'error', DYN_DISCOVERY_BACKEND: 'mem', DYN_ENGINE_REQUEST_LIMIT: '3' };
  const parrot = defineWorker({
    model: 'parrot',
    input: 'text',
    kinds: ['chat'],
    async *generate() {
      yield 'Polly';
    },
  });
  const worker = await parrot.start({ flags, env });
  await worker.drain();
  const shown = showConfig(['worker', '--json', ...flags], env).text;
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(JSON.parse(shown));
  expect(shown).toContain('flag --block-size');
});
