import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Fleet,
  freePort,
  openChat,
  postJson,
  runStator,
  type StatorProcess,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
/** Dead workers leave discovery within this; loads are told at once. */
const QUICK = {
  STATOR_LEASE_TTL_SECS: '2',
  STATOR_LOAD_REPORT_INTERVAL_MS: '100',
  DYN_INHIBITED_DURATION_SECS: '0.5',
};
const BLOCKS = ['--block-size=16'];
const FAST = [...BLOCKS, '--speedup-ratio=50'];
/** Half a second for a prompt, more than one for a `LONG` one, some milliseconds for a token. */
const SLOW = [...BLOCKS, '--speedup-ratio=0.045', '--decode-speedup-ratio=22'];
/** Prompts at once, 160 tokens a second: what is killed in mid-stream has seconds of it before it. */
const STEADY = [...FAST, '--decode-speedup-ratio=0.02'];
const PREFILL = '--disaggregation-mode=prefill';
const DECODE = '--disaggregation-mode=decode';
const KV = '--router-mode=kv';
const FALLBACKS = 'dynamo_frontend_decode_only_fallback_total';
const TRANSFERS = 'dynamo_component_router_kv_transfer_estimated_latency_seconds_count';
const MIGRATIONS = 'dynamo_frontend_model_migration_total';
const REQUESTS = 'dynamo_component_requests_total';
const INFLIGHT = 'dynamo_component_inflight_requests';
const CACHE_USAGE = 'dynamo_component_gpu_cache_usage_percent';

interface Answer {
  readonly text: string;
  readonly cached: number;
  readonly prompt: number;
  readonly completion: number;
  readonly prefill: string;
  readonly decode: string;
}

const PARTS = 'parts meet where their edges fit; ';
/** So many parts that even on a busy machine the prompt is still computed when something befalls its worker. */
const LONG = 200;

function body(topic: string, more: object = {}, parts = 20): Readonly<Record<string, unknown>> {
  return {
    model: MODEL,
    max_tokens: 40,
    messages: [{ role: 'user', content: `${topic}: ${PARTS.repeat(parts)}` }],
    nvext: { extra_fields: ['worker_id'] },
    ...more,
  };
}

async function ask(frontend: StatorProcess, topic: string, more: object = {}, parts?: number): Promise<Answer> {
  const response = await postJson(`${frontend.url}/v1/chat/completions`, body(topic, more, parts));
  const text = await response.text();
  expect(response.status, text).toBe(200);
  // Ids are larger than what JSON numbers hold.
  const exact = text.replaceAll(/"(prefill|decode)_worker_id":(\d+)/g, '"$1_worker_id":"$2"');
  const { choices, usage, nvext } = JSON.parse(exact);
  return {
    text: choices[0].message.content,
    prompt: usage.prompt_tokens,
    completion: usage.completion_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    prefill: hex(nvext.worker_id.prefill_worker_id),
    decode: hex(nvext.worker_id.decode_worker_id),
  };
}

function hex(decimal: string): string {
  return BigInt(decimal).toString(16);
}

function idsOf(workers: readonly StatorProcess[]): string[] {
  return workers.map(({ instanceId }) => BigInt(`0x${instanceId}`).toString(16));
}

/** Everything is given back: no request runs and no block is held. */
async function untilIdle(workers: readonly StatorProcess[]): Promise<void> {
  for (const worker of workers) {
    await waitUntil(async () => (await worker.metric(INFLIGHT)) === 0 && (await worker.metric(CACHE_USAGE)) === 0, {
      what: 'a worker with nothing in its hands',
    });
  }
}

/** What one worker alone answers to the same prompts: mock output is a function of the tokens before. */
async function startReference(fleet: Fleet): Promise<StatorProcess> {
  const [frontend] = await Promise.all([
    fleet.frontend(['--namespace=alone']),
    fleet.worker([...FAST, '--namespace=alone']),
  ]);
  await fleet.untilWorkers(frontend, 1);
  return frontend;
}

interface Explained {
  readonly blocks: number;
  readonly candidates: readonly { readonly worker_id: string; readonly overlap: { readonly device: number } }[];
  readonly prefill?: Explained;
}

/** Where a request would go now. */
async function explain(frontend: StatorProcess, body: object): Promise<Explained> {
  const response = await postJson(`${frontend.url}/router/explain`, body);
  expect(response.status).toBe(200);
  return (await response.json()) as Explained;
}

/** A prefill worker is known to hold every block of the prompt. */
function holdsAll({ prefill }: Explained): boolean {
  return prefill?.candidates.some(({ overlap }) => overlap.device === prefill.blocks) === true;
}

function expectTwoDecisions(explained: Explained): void {
  const idsIn = ({ candidates }: Explained): string[] => candidates.map(({ worker_id: id }) => id).sort();
  expect(idsIn(explained)).toHaveLength(2);
  expect(explained.prefill?.candidates).toHaveLength(2);
  expect(explained.prefill && idsIn(explained.prefill)).not.toEqual(idsIn(explained));
}

describe('two prefill and two decode workers', () => {
  const fleet = useFleet(QUICK);
  const own = '--namespace=split';
  let alone: StatorProcess;
  let frontend: StatorProcess;
  let prefills: StatorProcess[] = [];
  let decodes: StatorProcess[] = [];

  beforeAll(async () => {
    const started = await Promise.all([
      startReference(fleet),
      fleet.frontend([KV, own]),
      Promise.all([PREFILL, PREFILL].map((role) => fleet.worker([...FAST, own, role]))),
      Promise.all([DECODE, DECODE].map((role) => fleet.worker([...STEADY, own, role]))),
    ]);
    [alone, frontend, prefills, decodes] = started;
    await fleet.untilWorkers(frontend, 4);
  });

  it('answer what one worker answers, token for token', async () => {
    const topics = Array.from({ length: 6 }, (_, at) => `topic ${at}`);
    const expected = await Promise.all(topics.map((topic) => ask(alone, topic)));
    const answers = await Promise.all(topics.map((topic) => ask(frontend, topic)));
    expect(answers.map(({ text }) => text)).toEqual(expected.map(({ text }) => text));
    expect(answers.map(({ prompt }) => prompt)).toEqual(expected.map(({ prompt }) => prompt));
    expect(answers.map(({ completion }) => completion)).toEqual(expected.map(({ completion }) => completion));
    for (const { prefill, decode } of answers) {
      expect(idsOf(prefills)).toContain(prefill);
      expect(idsOf(decodes)).toContain(decode);
    }
    expect(await frontend.metric(TRANSFERS)).toBe(6);
    expect(await frontend.metric(FALLBACKS)).toBe(0);
    // Between two that have nothing to do the lot decides: as often as it takes for both of each to have a turn.
    const count = (role: 'prefill' | 'decode'): number => new Set(answers.map((answer) => answer[role])).size;
    while (count('prefill') < 2 || count('decode') < 2) answers.push(await ask(frontend, `draw ${answers.length}`));
    await untilIdle([...prefills, ...decodes]);
  });

  it('compute prompts that grow on one prefill worker, and tell what it had cached', async () => {
    const answers: Answer[] = [];
    let prompt = 'growing: ';
    for (let turn = 0; turn < 4; turn++) {
      prompt += PARTS.repeat(12);
      const more = { messages: [{ role: 'user', content: prompt }] };
      answers.push(await ask(frontend, '', more));
      await waitUntil(async () => holdsAll(await explain(frontend, body('', more))), {
        what: 'the blocks in the index',
      });
    }
    expect(new Set(answers.map(({ prefill }) => prefill)).size).toBe(1);
    expect(idsOf(decodes)).not.toContain(answers[0]?.prefill);
    const [first, ...others] = answers;
    expect(first?.cached).toBe(0);
    for (const { cached } of others) expect(cached).toBeGreaterThan(0);
  });

  it('say why each of the two was chosen', async () => {
    const response = await postJson(`${frontend.url}/v1/chat/completions`, body('explained'));
    const { id } = (await response.json()) as { readonly id: string };
    const known = await fetch(`${frontend.url}/router/explain/${id}`);
    expect(known.status).toBe(200);
    expectTwoDecisions((await known.json()) as Explained);
    expectTwoDecisions(await explain(frontend, { model: MODEL, prompt: PARTS.repeat(20) }));
    const shown = await runStator(['router', 'explain', id, '--url', frontend.url]);
    expect(shown.stdout).toMatch(/^prefill {2}[\s\S]*\ndecode {3}/);
  });

  it('stream as well, and end with a stop string', async () => {
    const { text } = await ask(frontend, 'streamed');
    const stop = text.split(' ').at(-3) ?? '';
    const stream = await openChat(frontend.url, body('streamed', { stop: [stop] }));
    const answer = await stream.answer;
    expect(answer.finishReason).toBe('stop');
    expect(text.startsWith(answer.text)).toBe(true);
    await untilIdle([...prefills, ...decodes]);
  });

  it('go on at the other decode worker when one is killed in mid-stream', async () => {
    const more = { max_tokens: 400 };
    const expected = await ask(alone, 'killed', more);
    const stream = await openChat(frontend.url, body('killed', more));
    await stream.untilDeltas(5);
    const busy = await Promise.all(decodes.map((worker) => worker.metric(INFLIGHT)));
    expect([...busy].sort()).toEqual([0, 1]);
    const at = busy.indexOf(1);
    decodes[at]?.signal('SIGKILL');
    const answer = await stream.answer;
    expect(answer.text).toBe(expected.text);
    expect(answer.isDone).toBe(true);
    expect(await frontend.metric(MIGRATIONS, '"ongoing_request"')).toBe(1);
    decodes.splice(at, 1);
    await fleet.untilWorkers(frontend, 3);
    await untilIdle([...prefills, ...decodes]);
  });
});

describe('prefill workers that are lost', () => {
  const fleet = useFleet(QUICK);
  const own = '--namespace=lost';
  let alone: StatorProcess;
  let lenient: StatorProcess;
  let strict: StatorProcess;
  let plain: StatorProcess;
  let prefills: StatorProcess[] = [];
  let decode: StatorProcess;

  beforeAll(async () => {
    const started = await Promise.all([
      startReference(fleet),
      fleet.frontend([own, '--decode-fallback']),
      fleet.frontend([own, '--enforce-disagg', '--migration-limit=0']),
      fleet.frontend([own]),
      Promise.all([PREFILL, PREFILL].map((role) => fleet.worker([...SLOW, own, role]))),
      fleet.worker([...FAST, own, DECODE]),
    ]);
    [alone, lenient, strict, plain, prefills, decode] = started;
    for (const frontend of [lenient, strict, plain]) await fleet.untilWorkers(frontend, 3);
  });

  /** A request that a prefill worker has in its hands. */
  async function inPrefill(frontend: StatorProcess, topic: string) {
    const leaving = new AbortController();
    const asked = body(topic, {}, LONG);
    const response = postJson(`${frontend.url}/v1/chat/completions`, asked, { signal: leaving.signal });
    response.catch(() => undefined); // a test that leaves expects no answer
    const worker = await waitUntil(
      async () => {
        for (const worker of prefills) if ((await worker.metric(INFLIGHT)) > 0) return worker;
        return undefined;
      },
      { what: 'a prompt in the hands of a prefill worker' },
    );
    return { response, worker, leave: () => leaving.abort() };
  }

  it('leave nothing behind when the client goes during the prefill', async () => {
    const before = await decode.metric(REQUESTS);
    const { leave, worker, response } = await inPrefill(lenient, 'left');
    leave();
    await expect(response).rejects.toThrow();
    await waitUntil(async () => (await worker.metric('dynamo_component_cancellation_total')) === 1, {
      what: 'the prefill worker told',
    });
    await untilIdle([...prefills, decode]);
    expect(await decode.metric(REQUESTS)).toBe(before);
  });

  it('let the other one compute the prompt', async () => {
    const expected = await ask(alone, 'other', {}, LONG);
    const { response, worker } = await inPrefill(lenient, 'other');
    worker.signal('SIGKILL');
    prefills = prefills.filter((other) => other !== worker);
    const answered = (await (await response).json()) as { choices: { message: { content: string } }[] };
    expect(answered.choices[0]?.message.content).toBe(expected.text);
    expect(await lenient.metric(MIGRATIONS, '"new_request"')).toBe(1);
    expect(await lenient.metric(FALLBACKS)).toBe(0);
    for (const frontend of [lenient, strict, plain]) await fleet.untilWorkers(frontend, 2);
  });

  it('let the decode worker compute it when none is left, unless that is forbidden', async () => {
    const expected = await ask(alone, 'last', {}, LONG);
    const [first, second] = [await inPrefill(plain, 'last'), await inPrefill(strict, 'last')];
    await waitUntil(async () => (await second.worker.metric(INFLIGHT)) === 2, { what: 'both requests in prefill' });
    first.worker.signal('SIGKILL');
    const answered = (await (await first.response).json()) as { choices: { message: { content: string } }[] };
    expect(answered.choices[0]?.message.content).toBe(expected.text);
    expect(await plain.metric(FALLBACKS)).toBe(1);
    expect((await second.response).status).toBe(503);
    for (const frontend of [lenient, strict, plain]) await fleet.untilWorkers(frontend, 1);
  });

  it('make the model unavailable when all are gone, except where decode workers may serve alone', async () => {
    const expected = await ask(alone, 'gone');
    expect((await postJson(`${plain.url}/v1/chat/completions`, body('gone'))).status).toBe(503);
    expect((await postJson(`${strict.url}/v1/chat/completions`, body('gone'))).status).toBe(503);
    const before = await lenient.metric(FALLBACKS);
    expect((await ask(lenient, 'gone')).text).toBe(expected.text);
    expect(await lenient.metric(FALLBACKS)).toBe(before + 1);
    expect(await plain.metric('stator_frontend_prefill_state', 'state="unavailable"')).toBe(1);
  });

  it('serve again when one comes back', async () => {
    prefills = [await fleet.worker([...FAST, own, PREFILL])];
    await fleet.untilWorkers(plain, 2);
    expect(idsOf(prefills)).toContain((await ask(plain, 'back')).prefill);
    expect(await plain.metric('stator_frontend_prefill_state', 'state="active"')).toBe(1);
  });

  it('finish what they have begun when a signal stops them', async () => {
    const expected = await ask(alone, 'leaves', {}, LONG);
    for (const worker of prefills) worker.signal('SIGTERM');
    prefills = [await fleet.worker([...SLOW, own, PREFILL])];
    await waitUntil(async () => idsOf(prefills).includes((await ask(plain, 'warm')).prefill), {
      what: 'the new worker',
    });
    const before = await plain.metric(FALLBACKS);
    const { response, worker } = await inPrefill(plain, 'leaves');
    worker.signal('SIGTERM');
    const answered = (await (await response).json()) as { choices: { message: { content: string } }[] };
    expect(answered.choices[0]?.message.content).toBe(expected.text);
    expect(await plain.metric(FALLBACKS)).toBe(before);
    expect(await worker.exited).toBe(0);
  });
});

describe('conditional disaggregation', () => {
  const fleet = useFleet(QUICK);
  const own = '--namespace=condition';

  it('has the decode worker compute what it has most of', async () => {
    const told = `--kv-events-config=${JSON.stringify({ enable_kv_cache_events: true })}`;
    const [frontend, prefill, decode] = await Promise.all([
      fleet.frontend([KV, own, '--router-conditional-disagg']),
      fleet.worker([...FAST, own, PREFILL]),
      fleet.worker([...FAST, own, DECODE, told]),
    ]);
    await fleet.untilWorkers(frontend, 2);
    const first = await ask(frontend, 'again');
    expect(idsOf([prefill])).toEqual([first.prefill]);
    const again = await waitUntil(
      async () => {
        const answer = await ask(frontend, 'again');
        return answer.prefill === answer.decode && answer;
      },
      { what: 'the decode worker alone' },
    );
    expect(idsOf([decode])).toEqual([again.prefill]);
    expect(again.text).toBe(first.text);
    expect(again.cached).toBeGreaterThan(0);
    expect(await frontend.metric(FALLBACKS)).toBe(0);
  });
});

describe('engines that meet at a rendezvous', () => {
  const fleet = useFleet(QUICK);
  const own = '--namespace=meet';
  let alone: StatorProcess;
  let frontend: StatorProcess;
  let prefills: StatorProcess[] = [];
  let decodes: StatorProcess[] = [];

  beforeAll(async () => {
    const ports = [await freePort(), await freePort()];
    const started = await Promise.all([
      startReference(fleet),
      fleet.frontend([KV, own]),
      Promise.all(ports.map((port) => fleet.worker([...SLOW, own, PREFILL, `--bootstrap-ports=${port}`]))),
      Promise.all([DECODE, DECODE].map((role) => fleet.worker([...FAST, own, role]))),
    ]);
    [alone, frontend, prefills, decodes] = started;
    await fleet.untilWorkers(frontend, 4);
  });

  it('answer what one worker answers', async () => {
    const topics = ['one', 'two', 'three'];
    const expected = await Promise.all(topics.map((topic) => ask(alone, topic)));
    const answers = await Promise.all(topics.map((topic) => ask(frontend, topic)));
    expect(answers.map(({ text }) => text)).toEqual(expected.map(({ text }) => text));
    for (const { prefill } of answers) expect(idsOf(prefills)).toContain(prefill);
    await untilIdle([...prefills, ...decodes]);
  });

  it('go on when the prefill worker is killed while the decode worker waits', async () => {
    const expected = await ask(alone, 'waiting', {}, LONG);
    const answer = ask(frontend, 'waiting', {}, LONG);
    const worker = await waitUntil(
      async () => {
        for (const worker of prefills) if ((await worker.metric(INFLIGHT)) > 0) return worker;
        return undefined;
      },
      { what: 'a prompt in the hands of a prefill worker' },
    );
    worker.signal('SIGKILL');
    prefills = prefills.filter((other) => other !== worker);
    const { text, prefill } = await answer;
    expect(text).toBe(expected.text);
    expect(idsOf(prefills)).toContain(prefill);
    await untilIdle([...prefills, ...decodes]);
  });

  it('leave nothing behind when the client goes', async () => {
    const leaving = new AbortController();
    const asked = postJson(`${frontend.url}/v1/chat/completions`, body('leaving', {}, LONG), {
      signal: leaving.signal,
    });
    asked.catch(() => undefined);
    await waitUntil(async () => (await prefills[0]?.metric(INFLIGHT)) === 1, { what: 'the prompt in prefill' });
    leaving.abort();
    await untilIdle([...prefills, ...decodes]);
  });
});
