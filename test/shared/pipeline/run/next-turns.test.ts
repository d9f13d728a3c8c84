import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import type { Worker } from '../../../../shared/pipeline/index.ts';
import { NextTurns } from '../../../../shared/pipeline/run/next-turns.ts';
import { decodeEngineRequest, type GenerationRequest } from '../../../../shared/protocol/index.ts';
import { type Router, withChoose } from '../../../../shared/router/index.ts';
import { Inhibition, SimpleRouter } from '../../../../shared/scheduler/index.ts';
import { compileChatTemplate } from '../../../../shared/tokens/template/chat-template.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { HandPlane, letterModel, model, promptTools, RecordingSink, request, type SeenCall } from '../fixtures.ts';

/** Roles as single letters, so that the letters of the prompt can be read off. */
const template = compileChatTemplate("{% for m in messages %}{{ m.role[0] }}{{ m.content or '' }}z{% endfor %}");
const loaded = { ...letterModel, chatTemplate: template };
const chat = (...texts: readonly string[]) => ({
  kind: 'chat' as const,
  messages: texts.map((content, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content })),
});

interface Setup {
  readonly max?: number;
  readonly choose?: Router<Worker>['choose'];
}

function open({ max = 16, choose }: Setup = {}) {
  const clock = new VirtualClock();
  const plane = new HandPlane();
  const inhibition = new Inhibition(clock, 5000);
  const simple = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition });
  const served = model();
  simple.setWorkers(served.pool, served.workers);
  const outcomes: string[] = [];
  const ignore = (): void => {};
  const observer = {
    ...{ stage: ignore, template: ignore, tokenize: ignore, tokenizerCache: ignore },
    ...{ migrated: ignore, migrationTooLong: ignore },
    speculated: (_model: string, outcome: string) => void outcomes.push(outcome),
  };
  const shared = {
    router: choose === undefined ? simple : withChoose(simple, choose),
    plane,
    clock,
    observer,
    streamWatch: undefined,
    stalledWorkers: { size: 0, has: () => false },
    failedWorkers: inhibition,
    fullWorkers: new Inhibition(clock, 1000),
    busyOf: () => undefined,
  };
  const random = seededRandom(2);
  const run = { ...shared, migrationLimit: 3, migrationTokensMax: undefined, hold: undefined, poolOf: () => served };
  const prefill = { ...shared, random, isEnforced: false, bypasses: undefined, modelNow: () => served };
  const turns = new NextTurns({ run, prefill, tools: promptTools(clock), clock, random, observer, max });
  /** Plays a turn to its end, as the pipeline does. */
  const turn = async (text: string, more: Partial<GenerationRequest> = {}, reason: 'stop' | 'length' = 'stop') => {
    const asked = request({ speculatesPrefill: true, prompt: chat('ab'), ...more });
    const inner = new RecordingSink();
    const sink = turns.listen(asked, inner);
    turns.follow(sink, { request: asked, model: served, loaded, promptTokens: 4 });
    sink.text(0, text, text.length);
    sink.finish({ choice: 0, text: '', tokenIds: [], reason });
    sink.end({ promptTokens: 4, completionTokens: text.length }, true);
    expect(inner).toMatchObject({ shown: text, ended: { finished: true } });
    await clock.advance(0);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { turns, plane, outcomes, clock, turn };
}

function sent({ request: { id, body, tokenIds } }: SeenCall) {
  return decodeEngineRequest(id, body as Record<string, unknown>, tokenIds);
}

function textOf(call: SeenCall): string {
  const { input } = sent(call);
  return input.kind === 'tokens' ? letterModel.tokenizer.decode([...input.tokenIds]) : '';
}

describe('the prompt of a next turn', () => {
  it('is sent once the answer has ended, as far as it is known, for one token that no client reads', async () => {
    const { turn, plane, outcomes } = open();
    await turn('cd');
    const call = await plane.seen(1);
    expect(textOf(call)).toBe('uabzacdzu'); // the user will say something
    expect(sent(call).stop.max_tokens).toBe(1);
    call.sink.tokens(0, [5], 0, 1);
    call.sink.output({ finish_reason: 'length' });
    call.sink.end();
    expect(outcomes).toEqual(['done']);
  });

  it('keeps who asks and whose blocks they are, and none of what hurries a request', async () => {
    const { turn, plane } = open();
    const routing = { cache_salt: 'us', session_id: 's1', priority: 5, priority_jump: 5, strict_priority: 2 };
    await turn('cd', { routing, sampling: { n: 2, temperature: 1 }, annotations: ['token_ids'] });
    const { routing: kept, sampling, annotations } = sent(await plane.seen(1));
    expect(kept).toEqual({ cache_salt: 'us' }); // a session is the router's alone
    expect([sampling, annotations]).toEqual([{ temperature: 0 }, []]);
  });

  it.each([
    ['the request does not ask for it', { speculatesPrefill: false }, 'stop'],
    ['the answer was cut', {}, 'length'],
    ['there is no conversation', { prompt: { kind: 'raw', text: 'ab' } }, 'stop'],
  ] as const)('is left alone where %s', async (_, more, reason) => {
    const { turn, plane, outcomes } = open();
    await turn('cd', more, reason);
    expect([plane.calls.length, outcomes]).toEqual([0, []]);
  });

  it.each([
    ['by what it says', { prompt: chat('ab', 'cd', 'ef') }],
    ['by its session', { prompt: chat('xy'), routing: { session_id: 's1' } }],
  ])('gives way when the turn itself comes, known %s', async (_, next) => {
    const { turn, turns, plane, outcomes } = open();
    await turn('cd', { routing: { session_id: 's1' } });
    const call = await plane.seen(1);
    turns.arrived(request({ prompt: chat('something', 'else', 'here') }));
    expect(outcomes).toEqual([]);
    turns.arrived(request(next));
    expect([outcomes, call.log]).toEqual([['superseded'], ['kill']]);
  });

  it('does not queue, is given up after half a minute, and is one of a few', async () => {
    const busy = open({
      choose: async ({ onQueued }, signal) => {
        const leaving = onQueued?.(0) ?? signal;
        leaving.throwIfAborted();
        throw new Error('it waits');
      },
    });
    await busy.turn('cd');
    expect(busy.outcomes).toEqual(['dropped']);

    const slow = open({ max: 1 });
    await slow.turn('cd');
    const call = await slow.plane.seen(1);
    await slow.turn('ef');
    expect([slow.outcomes, slow.plane.calls.length]).toEqual([['dropped'], 1]);
    await slow.clock.advance(30_000);
    expect([slow.outcomes, call.log]).toEqual([['dropped', 'dropped'], ['kill']]);
  });

  it('does not move when its worker fails, and ends with the pipeline', async () => {
    const failing = open();
    await failing.turn('cd');
    (await failing.plane.seen(1)).sink.fail(workerError('Internal'));
    expect([failing.outcomes, failing.plane.calls.length]).toEqual([['failed'], 1]);

    const closing = open();
    await closing.turn('cd');
    const call = await closing.plane.seen(1);
    closing.turns.close();
    await closing.turn('ef');
    expect([closing.outcomes, call.log, closing.plane.calls.length]).toEqual([['dropped', 'dropped'], ['kill'], 1]);
  });
});
