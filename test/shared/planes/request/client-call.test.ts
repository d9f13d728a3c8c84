import { describe, expect, it } from 'vitest';
import { ClientCall, INITIAL_CREDIT } from '../../../../shared/planes/request/client-call.ts';
import { silentObserver } from '../../../../shared/planes/request/observer.ts';
import { RecordingSink } from '../../../contract/planes/recording-sink.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

function open() {
  const sink = new RecordingSink();
  const log: string[] = [];
  const call = new ClientCall({ sink, clock: new VirtualClock(), observer: silentObserver, deadlineMs: undefined });
  call.attach(
    {
      stop: () => log.push('stop'),
      kill: () => log.push('kill'),
      credit: (_streamId, amount) => log.push(`credit ${amount}`),
      release: () => log.push('release'),
    },
    1,
  );
  call.accept();
  return { call, sink, log };
}

describe('a worker that sends without credit', () => {
  it('loses the stream whose reader waits, instead of filling memory', () => {
    const { call, sink, log } = open();
    call.pause();
    for (let at = 0; at < 10_000; at++) call.tokens(0, [1], 0, 1);
    expect(sink.failure).toMatchObject({ code: 'bad_worker_response' });
    expect(sink.tokenCount).toBeLessThanOrEqual(2 * INITIAL_CREDIT);
    expect(log).toEqual(['kill', 'release']);
  });

  it('loses it for items, too', () => {
    const { call, sink } = open();
    call.pause();
    for (let at = 0; at < 10_000; at++) call.output({ text: 'a' });
    expect(sink.failure).toMatchObject({ code: 'bad_worker_response' });
    expect(sink.events.length).toBeLessThanOrEqual(2 * INITIAL_CREDIT + 2);
  });

  it('may use up what it had when the reader stopped', () => {
    const { call, sink, log } = open();
    call.tokens(0, [1], 0, 1);
    call.pause();
    for (let at = 1; at < INITIAL_CREDIT; at++) call.tokens(0, [1], 0, 1);
    expect(sink.failure).toBeUndefined();
    call.resume();
    expect(log).toEqual([`credit ${INITIAL_CREDIT}`]);
  });
});

it('counts no wait for the acknowledgement of a call that ended before it was sent', async () => {
  const clock = new VirtualClock();
  await clock.advance(60_000);
  const waits: number[] = [];
  const observer = { ...silentObserver, acknowledged: (seconds: number) => void waits.push(seconds) };
  const call = new ClientCall({ sink: new RecordingSink(), clock, observer, deadlineMs: undefined });
  call.end();
  expect(waits).toEqual([0]);
});
