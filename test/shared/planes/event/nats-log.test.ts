import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { encodeEnvelopeRecord } from '../../../../shared/planes/event/envelope.ts';
import { NatsEventLog } from '../../../../shared/planes/event/nats/log.ts';
import type { NatsStream } from '../../../../shared/planes/nats/stream.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const TOPIC = 'kv-events';
const never = new AbortController().signal;

/** A stream whose readers end after these messages, one number for each reader. The rest of the log is not there. */
function logThatEnds(lastSequence: number, ends: readonly number[]) {
  const opened: number[] = [];
  const stream = {
    facts: async () => ({ createdAt: 'now', firstSequence: 1, lastSequence, differences: [] }),
    read: async (fromSequence: number) => {
      const end = ends[opened.push(fromSequence) - 1] ?? 0;
      const sequences = Array.from({ length: Math.max(0, end - fromSequence + 1) }, (_, at) => fromSequence + at);
      const messages = sequences.map((sequence) => ({ sequence, data: eventOf(sequence) }));
      return { next: async () => ({ messages, isLast: true }), close() {} };
    },
  } as unknown as NatsStream;
  const parts = { topic: TOPIC, clock: new VirtualClock(), random: seededRandom(1), onProblem: () => {} };
  return { log: new NatsEventLog({ ...parts, stream, followers: new Set() }), opened };
}

function eventOf(sequence: number): Uint8Array {
  return encodeEnvelopeRecord({ publisherId: '1', sequence, publishedAtMs: 0, topic: TOPIC, payload: sequence });
}

async function sequencesOf({ log }: ReturnType<typeof logThatEnds>): Promise<readonly number[]> {
  const sequences: number[] = [];
  for await (const { sequence } of log.read(1, never)) sequences.push(sequence);
  return sequences;
}

describe('a log of NATS', () => {
  it('is read whole if its server says too early that nothing is left', async () => {
    const log = logThatEnds(6, [3, 5, 6]);
    expect(await sequencesOf(log)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(log.opened).toEqual([1, 4, 6]);
  });

  it('is read as far as it goes if its end was deleted', async () => {
    const log = logThatEnds(6, [4]);
    expect(await sequencesOf(log)).toEqual([1, 2, 3, 4]);
    expect(log.opened).toEqual([1, 5]);
  });
});
