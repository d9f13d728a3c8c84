import { expect, it } from 'vitest';
import { useFleet } from '../support/index.ts';
import { readChat } from '../support/openai-http.ts';

const fleet = useFleet();
/** Says on stderr when the process that it is loaded into starts a thread. */
const WATCH = 'data:text/javascript,process.on(%22worker%22,()=>console.error(%22a-thread-starts%22))';

it('a frontend encodes every prompt in the threads of --dyn-preprocess-workers, and a short one in none by default', async () => {
  const env = { NODE_OPTIONS: `--import ${WATCH}` };
  const [own, plain] = await Promise.all([
    fleet.frontend(['--dyn-preprocess-workers=1'], env),
    fleet.frontend([], env),
    fleet.worker(),
  ]);
  for (const frontend of [own, plain]) {
    await fleet.untilWorkers(frontend, 1);
    const chat = { model: 'stator-mini', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] };
    expect((await readChat(frontend.url, chat)).finishReason).toBe('length');
  }
  const threads = [own, plain].map((one) => one.stderr().split('a-thread-starts').length - 1);
  expect(threads[0]).toBe(Number(threads[1]) + 1);
});
