import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const fleet = useFleet();
const STORY = 'The river runs down to the sea, and nobody asks it why. '.repeat(20);
const WORKERS = { extra_fields: ['worker_id'] };

interface Answer {
  readonly choices: readonly { readonly message: { readonly content: string | null } }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
  readonly nvext?: { readonly worker_id: object; readonly token_ids?: readonly number[] };
  readonly error?: { readonly param: string };
}

describe('hints of requests to the router', () => {
  let local: StatorProcess;
  beforeAll(async () => {
    local = await fleet.local(['--router-mode=kv', '--num-workers=2']);
  });

  async function ask(messages: readonly object[], nvext: object, more: object = {}): Promise<Answer> {
    const body = { model: 'stator-mini', max_tokens: 24, messages, nvext, ...more };
    return (await (await postJson(`${local.url}/v1/chat/completions`, body)).json()) as Answer;
  }

  it('a dry run names the worker that the request goes to then, and the prompt, and makes no answer', async () => {
    const messages = [{ role: 'user', content: STORY }];
    const first = await ask(messages, WORKERS);
    const dry = await ask(messages, { annotations: ['query_instance_id:'] });
    expect(dry.nvext?.worker_id).toEqual(first.nvext?.worker_id);
    expect(dry.nvext?.token_ids).toHaveLength(first.usage?.prompt_tokens ?? 0);
    expect([dry.choices[0]?.message.content, dry.usage]).toEqual([null, undefined]);
    expect((await ask(messages, WORKERS)).nvext).toEqual(first.nvext);
  });

  it('the prompt of the next turn is computed before it comes', async () => {
    const messages = [{ role: 'user', content: `${STORY} Begin.` }];
    const first = await ask(
      messages,
      { ...WORKERS, agent_hints: { speculative_prefill: true } },
      { stop: ['.'], max_tokens: 400 },
    );
    const done = () => local.metric('stator_frontend_speculative_prefills_total', 'outcome="done"');
    await waitUntil(async () => (await done()) === 1, { what: 'the prefill' });
    const next = [
      ...messages,
      { role: 'assistant', content: first.choices[0]?.message.content },
      { role: 'user', content: 'Go on.' },
    ];
    const { usage } = await ask(next, WORKERS);
    const cached = usage?.prompt_tokens_details.cached_tokens ?? 0;
    expect(cached).toBeGreaterThan(first.usage?.prompt_tokens ?? 0);
  });
});
