import { beforeAll, describe, expect, it } from 'vitest';
import { readChat, type StatorProcess, useFleet } from '../support/index.ts';
import { cpuMsOf } from '../support/process-table.ts';

const BODY_BYTES = 24 * 1024 * 1024;
/** Each of these bodies, checked element by element and fault by fault, would take more than ten times as much. */
const HEAP_MB = 192;
/** Seconds were usual; what is left is the noise of a busy machine. */
const PAUSE_MS_MAX = 1500;

const fleet = useFleet();
let local: StatorProcess;

beforeAll(async () => {
  const env = { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}`, DYN_HTTP_BODY_LIMIT_MB: '32' };
  local = await fleet.local(['--num-workers=1', '--speedup-ratio=10'], { ...env, STATOR_HTTP_BODY_BUDGET_MB: '40' });
});

const filled = (element: string): string =>
  `[${`${element},`.repeat(Math.floor(BODY_BYTES / (element.length + 1)))}${element}]`;

describe('a body of megabytes', () => {
  it.each([
    ['ids that are not ids', '/v1/completions', 'prompt', '-1', 'prompt[0]'],
    ['ids', '/v1/completions', 'prompt', '1', 'prompt'],
    ['messages that are not messages', '/v1/chat/completions', 'messages', '1', 'messages'],
    ['messages', '/v1/chat/completions', 'messages', '{"role":"user","content":"a"}', 'messages'],
    ['tools that are not tools', '/v1/chat/completions', 'tools', '{}', 'tools[0].type'],
    ['inputs', '/v1/embeddings', 'input', '[]', 'input'],
  ])('of %s is refused by name, while others are answered', async (_what, path, field, element, param) => {
    const messages = field === 'tools' ? '"messages":[{"role":"user","content":"a"}],' : '';
    const body = `{"model":"stator-mini",${messages}"${field}":${filled(element)}}`;
    let isOver = false;
    const answered = fetch(`${local.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    }).finally(() => {
      isOver = true;
    });
    let pauseMs = 0;
    while (!isOver) {
      const [startedMs, before] = [performance.now(), cpuMsOf(local.pid)];
      await (await fetch(`${local.url}/live`)).text();
      const [tookMs, after] = [performance.now() - startedMs, cpuMsOf(local.pid)];
      const workedMs = before === undefined || after === undefined ? tookMs : after - before;
      pauseMs = Math.max(pauseMs, Math.min(tookMs, workedMs)); // others may have had the processors meanwhile
    }
    const response = await answered;
    expect([400, 413]).toContain(response.status);
    expect(((await response.json()) as { error: { param: string } }).error.param).toBe(param);
    expect(pauseMs).toBeLessThan(PAUSE_MS_MAX);
    const good = { model: 'stator-mini', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 };
    expect(await readChat(local.url, good)).toMatchObject({ isDone: true });
    expect(await local.metric('stator_frontend_body_bytes')).toBe(0);
  });
});
