import { expect, it } from 'vitest';
import { Heartbeat, Liveness } from '../../../../../shared/planes/request/frames/heartbeat.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

it('pings while streams are open and takes the peer for dead after its silent beats', () => {
  const liveness = new Liveness(3, 100);
  expect([1, 1, 1, 1].map((streams) => liveness.beat(streams))).toEqual(['ping', 'ping', 'ping', 'dead']);
});

it('begins to count anew with every byte and whenever no stream is open', () => {
  const liveness = new Liveness(2, 100);
  const beats: string[] = [];
  for (let at = 0; at < 10; at++) {
    beats.push(liveness.beat(1));
    liveness.heard();
  }
  beats.push(liveness.beat(1), liveness.beat(0), liveness.beat(1), liveness.beat(1), liveness.beat(1));
  expect(beats).toEqual([...Array(11).fill('ping'), 'rest', 'ping', 'ping', 'dead']);
});

it('is idle after its beats without a stream, however much was heard', () => {
  const liveness = new Liveness(3, 2);
  expect(liveness.beat(0)).toBe('rest');
  expect(liveness.beat(1)).toBe('ping');
  liveness.heard();
  expect(liveness.beat(0)).toBe('rest');
  liveness.heard();
  expect(liveness.beat(0)).toBe('idle');
});

it('beats for every connection with one timer, and with none when there is none', async () => {
  const clock = new VirtualClock();
  const heartbeat = new Heartbeat(clock, 5000);
  expect([heartbeat.beatsIn(15_000), heartbeat.beatsIn(12_000), heartbeat.beatsIn(1)]).toEqual([3, 3, 1]);
  const counts = [0, 0];
  const pulses = counts.map((_, at) => ({
    beat: () => {
      counts[at]! += 1; // `at` indexes `counts`
    },
  }));
  for (const pulse of pulses) heartbeat.add(pulse);
  expect(clock.pendingTimers).toBe(1);
  await clock.advance(10_000);
  heartbeat.remove(pulses[0]!);
  await clock.advance(5000);
  expect(counts).toEqual([2, 3]);
  heartbeat.remove(pulses[1]!);
  expect(clock.pendingTimers).toBe(0);
});
