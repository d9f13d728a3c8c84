import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readChat, spawnProgram, waitUntil } from '../support/index.ts';
import { NODE_VERSIONS, nodeIn } from '../support/tools/nodes.ts';
import { zstdFrame } from '../support/zstd-frame.ts';

const installation = process.env.STATOR_TEST_NODES;
const temporary = mkdtempSync(join(tmpdir(), 'stator-nodes-'));
afterAll(() => rmSync(temporary, { recursive: true, force: true }));

describe.runIf(installation)('stator local', () => {
  it.each([...NODE_VERSIONS.keys()])('starts, streams a chat and ends on Node %i', async (major) => {
    const node = nodeIn(installation ?? '', major);
    const asked = spawnProgram(node, ['--version']);
    await asked.exited;
    expect(asked.stdout()).toMatch(new RegExp(`^v${major}\\.`));
    const args = ['--max-semi-space-size=4', 'bin/stator.js', 'local', '--http-port=0', '--num-workers=1'];
    const local = spawnProgram(node, args, { env: { TMPDIR: temporary } });
    try {
      const [url] = await local.waitForOutput(/http:\/\/127\.0\.0\.1:\d+/, 40_000);
      await waitUntil(
        async () => ((await (await fetch(`${url}/v1/models`)).json()) as { data: unknown[] }).data.length > 0,
      );
      const chat = await readChat(url, {
        model: 'stator-mini',
        messages: [{ role: 'user', content: 'What are you?' }],
      });
      expect(chat.finishReason).toBe('stop');
      expect(chat.text.length).toBeGreaterThan(20);
      const packed = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'content-encoding': 'zstd' },
        body: zstdFrame('{"model":"stator-mini","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}'),
      });
      expect(packed.status).toBe(major >= 22 ? 200 : 415); // Node 20 cannot unpack it
      await packed.text();
      expect(local.stderr()).not.toMatch(/Warning/); // nothing that Node has to say of the program
      local.signal('SIGTERM');
      expect(await local.exited).toBe(0);
    } finally {
      await local.kill();
    }
  });
});
