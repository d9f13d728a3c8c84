import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { type Span, Tracer } from '../../../../shared/telemetry/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import type { SeenCall } from '../fixtures.ts';
import { accept, finish, type Setup, say, start } from './start-run.ts';

/** A request whose worker has said `ab`, and wants to be rid of it. */
async function asked(more: Partial<GenerationRequest> = {}, setup: Setup = {}) {
  const bed = start(more, setup);
  const first = await bed.plane.seen(1);
  accept(first);
  say(first, 'ab');
  first.sink.moveAsked?.();
  await bed.clock.advance(0);
  return { ...bed, first };
}

const idOf = ({ transport }: SeenCall): string | undefined => transport.memory;
const promptOf = ({ request }: SeenCall): string =>
  Array.from(request.tokenIds ?? [], (id) => String.fromCharCode(96 + id)).join('');

describe('a stream that its worker wants to be rid of', () => {
  it('stays where it is until another worker has taken it, and goes on there unbroken', async () => {
    const { first, plane, sink, moves } = await asked();
    const second = await plane.seen(2);
    expect([idOf(first), idOf(second)]).toEqual(['a', 'c']);
    expect(promptOf(second)).toBe('abcab');
    expect(first.log).toEqual(['pause']);
    say(first, 'xy'); // said again by the next one, in its own words
    expect([sink.shown, moves]).toEqual(['ab', []]);
    accept(second);
    expect(first.log).toEqual(['pause', 'kill: moved']);
    expect(moves).toEqual(['ongoing_request']);
    say(second, 'cd');
    finish(second);
    expect(sink).toMatchObject({ shown: 'abcd', ended: { usage: { promptTokens: 3, completionTokens: 4 } } });
  });

  it('moves before its first token, too', async () => {
    const { plane, sink, moves, clock } = start();
    const first = await plane.seen(1);
    accept(first);
    first.sink.moveAsked?.();
    await clock.advance(0);
    const second = await plane.seen(2);
    accept(second);
    say(second, 'ab');
    finish(second);
    expect([sink.shown, moves, promptOf(second)]).toEqual(['ab', ['new_request'], 'abc']);
  });

  it.each<[string, (second: SeenCall) => void]>([
    ['refuses', ({ sink }) => sink.fail(workerError('WorkerUnavailable'))],
    ['cannot be reached', ({ sink }) => sink.fail(workerError('CannotConnect'))],
    ['is full', ({ sink }) => sink.fail(workerError('WorkerOverloaded'))],
  ])('goes on where it is when the other worker %s, with every token', async (_how, refuse) => {
    const { first, plane, sink, moves } = await asked();
    say(first, 'xy');
    refuse(await plane.seen(2));
    expect([sink.shown, first.log, moves]).toEqual(['abxy', ['pause', 'resume'], []]);
    say(first, 'z');
    finish(first);
    expect(sink).toMatchObject({ shown: 'abxyz', ended: { usage: { completionTokens: 5 } } });
  });

  it('goes on at its worker if no other answers in time', async () => {
    const { first, plane, sink, clock, moves } = await asked();
    const second = await plane.seen(2);
    say(first, 'xy');
    await clock.advance(10_000);
    expect([sink.shown, first.log, second.log, moves]).toEqual(['abxy', ['pause', 'resume'], ['kill'], []]);
    accept(second); // too late
    say(first, 'z');
    finish(first);
    expect(sink.shown).toBe('abxyz');
  });

  it('may be asked about again, at most once a second', async () => {
    const { first, plane, sink, clock } = await asked();
    (await plane.seen(2)).sink.fail(workerError('WorkerOverloaded'));
    for (let at = 0; at < 9; at++) first.sink.moveAsked?.();
    await clock.advance(0);
    expect(plane.calls).toHaveLength(2);
    await clock.advance(1000);
    first.sink.moveAsked?.();
    await clock.advance(0);
    const third = await plane.seen(3);
    accept(third);
    say(third, 'c');
    finish(third);
    expect(sink.shown).toBe('abc');
  });

  it.each<[string, Partial<GenerationRequest>, Setup]>([
    ['no other worker exists', {}, { workers: 1 }],
    ['no move is left', {}, { limit: 0 }],
    ['it is too long to move', {}, { tokensMax: 4 }],
    ['it has several choices', { sampling: { n: 2 } }, {}],
    ['its output is guided', { sampling: { guided_decoding: { regex: 'a' } } }, {}],
    ['it is pinned', { routing: { backend_instance_id: 'a' } }, {}],
  ])('stays if %s', async (_why, more, setup) => {
    const { first, plane, moves } = await asked(more, setup);
    expect([plane.calls.length, first.log, moves]).toEqual([1, [], []]);
  });

  it('stays if it grows too long to move during the search for another worker', async () => {
    const { plane, sink, moves, clock } = start({}, { tokensMax: 6 });
    const first = await plane.seen(1);
    say(first, 'ab');
    first.sink.moveAsked?.();
    say(first, 'xy');
    await clock.advance(0);
    say(first, 'z');
    finish(first);
    expect([plane.calls.length, sink.shown, moves]).toEqual([1, 'abxyz', []]);
  });

  it('that ends meanwhile has no need of the other worker', async () => {
    const { first, plane, sink, moves } = await asked();
    const second = await plane.seen(2);
    say(first, 'xy');
    finish(first);
    expect(sink).toMatchObject({ shown: 'abxy', ended: { usage: { completionTokens: 4 } } });
    expect([second.log, moves]).toEqual([['kill'], []]);
  });

  it('that fails meanwhile moves as any other does', async () => {
    const { first, plane, sink, moves } = await asked();
    const second = await plane.seen(2);
    say(first, 'xy');
    first.sink.fail(workerError('Disconnected'));
    const third = await plane.seen(3);
    expect([second.log, promptOf(third)]).toEqual([['kill'], 'abcabxy']);
    accept(third);
    say(third, 'z');
    finish(third);
    expect([sink.shown, moves]).toEqual(['abxyz', ['ongoing_request']]);
  });

  it('whose client leaves meanwhile is dropped by both workers', async () => {
    const { first, plane, client, moves } = await asked();
    const second = await plane.seen(2);
    client.abort();
    expect([first.log.at(-1), second.log, moves]).toEqual(['kill', ['kill'], []]);
  });

  it('of a slow reader waits for that at the next worker', async () => {
    const { plane, sink, clock } = start();
    const first = await plane.seen(1);
    accept(first);
    sink.blocked = true;
    say(first, 'ab');
    first.sink.moveAsked?.();
    await clock.advance(0);
    const second = await plane.seen(2);
    accept(second);
    expect(second.log).toEqual(['pause']);
    sink.unblock();
    expect(second.log).toEqual(['pause', 'resume']);
    say(second, 'c');
    finish(second);
    expect(sink.shown).toBe('abc');
  });

  it('may be moved on by the next worker', async () => {
    const { plane, sink, clock, moves } = await asked();
    const second = await plane.seen(2);
    accept(second);
    say(second, 'c');
    await clock.advance(1000);
    second.sink.moveAsked?.();
    await clock.advance(0);
    const third = await plane.seen(3);
    accept(third);
    say(third, 'd');
    finish(third);
    expect([sink.shown, moves, second.log]).toEqual([
      'abcd',
      ['ongoing_request', 'ongoing_request'],
      ['pause', 'kill: moved'],
    ]);
  });
});

describe('a move', () => {
  it('is counted once a worker has taken the request, and not where none has', async () => {
    const { plane, sink, moves, clock } = start({}, { workers: 2 });
    const first = await plane.seen(1);
    accept(first);
    say(first, 'ab');
    first.sink.fail(workerError('Disconnected'));
    const second = await plane.seen(2);
    second.sink.fail(workerError('CannotConnect'));
    await clock.advance(0);
    expect(moves).toEqual([]);
    expect(sink.failure?.code).toBe('worker_lost');
  });
});

describe('the spans of a stream', () => {
  function traced() {
    const ended: Span[] = [];
    const sinks = [{ ended: (span: Span) => ended.push(span) }];
    const span = new Tracer({ clock: new VirtualClock(), random: seededRandom(1), sinks }).begin('chat', {});
    const dispatches = () =>
      ended.filter(({ name }) => name === 'dispatch').map(({ error, attributes }) => [error, attributes.ended_by]);
    return { ended, trace: { span }, dispatches };
  }

  it('do not call a move a failure, and link the next place to the one before', async () => {
    const { ended, trace, dispatches } = traced();
    const { plane } = await asked({ trace });
    const second = await plane.seen(2);
    accept(second);
    say(second, 'c');
    finish(second);
    expect(dispatches()).toEqual([
      [undefined, 'moved'],
      [undefined, undefined],
    ]);
    const [left, taken] = ended.filter(({ name }) => name === 'dispatch');
    expect(taken!.links).toEqual([left!.context]);
    expect(trace.span.attributes['gen_ai.response.finish_reasons']).toEqual(['length']);
    for (const { attributes } of ended) expect(attributes).not.toHaveProperty('dp_rank'); // nobody chose one
  });

  it('say of a place that was not needed that it was given up', async () => {
    const { trace, dispatches } = traced();
    const { first, plane } = await asked({ trace });
    (await plane.seen(2)).sink.fail(workerError('WorkerOverloaded'));
    finish(first);
    expect(dispatches()).toEqual([
      [undefined, 'given up'],
      [undefined, undefined],
    ]);
  });

  it('call a worker that is lost a failure, of that attempt alone', async () => {
    const { trace, dispatches } = traced();
    const { first, plane } = await asked({ trace });
    const second = await plane.seen(2);
    second.sink.fail(workerError('WorkerOverloaded'));
    first.sink.fail(workerError('Disconnected'));
    const third = await plane.seen(3);
    accept(third);
    finish(third);
    expect(dispatches()).toEqual([
      [undefined, 'given up'],
      ['Disconnected', undefined],
      [undefined, undefined],
    ]);
  });

  it('say of one whose client has gone that it was cancelled', async () => {
    const { trace, dispatches } = traced();
    const { client } = await asked({ trace });
    client.abort();
    expect(dispatches().at(-1)).toEqual([undefined, 'cancelled']);
  });
});
