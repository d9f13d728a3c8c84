import { describe, expect, it } from 'vitest';
import { tellUntold } from '../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { countAllRepeats, countRepeats } from '../../../shared/telemetry/log/repeats.ts';
import { spawnTypeScript } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const ENTRY = new URL('repeating-process.ts', import.meta.url);

function bed() {
  const clock = new VirtualClock();
  const { logger, lines } = captureLogger();
  return { clock, lines, log: countRepeats(logger, clock), told: () => lines.map(({ fields }) => fields) };
}

describe('a line that repeats', () => {
  it('is written once, then with how many were left out, after longer and longer pauses', async () => {
    const { clock, log, lines, told } = bed();
    for (let second = 0; second < 3600; second++) {
      log.warn('away', { reason: 'timeout' });
      await clock.advance(1000);
    }
    expect(lines.map(({ message }) => message)).toEqual(Array(9).fill('away'));
    expect(told()[0]).toEqual({ reason: 'timeout' });
    const untold = told().map((fields) => Number(fields.untold ?? 0));
    expect(untold).toEqual([0, ...untold.slice(1).sort((a, b) => a - b)]); // each pause is longer
    expect(untold.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(2500);
  });

  it('is counted to the last one, though none comes after it', async () => {
    const { clock, log, told } = bed();
    for (let at = 0; at < 5; at++) log.error('away');
    await clock.advance(60_000);
    expect(told()).toEqual([{}, { untold: 4 }]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is written at once when the process ends, with all that was left out', async () => {
    const { clock, log, told } = bed();
    for (const worker of ['a', 'a', 'a', 'b']) log.with({ worker }).warn('away');
    for (let at = 0; at < 3; at++) log.error('request failed');
    tellUntold();
    const ended = [{ worker: 'a' }, { worker: 'b' }, {}, { worker: 'a', untold: 2 }, { untold: 2 }];
    expect(told()).toEqual(ended);
    expect(clock.pendingTimers).toBe(0);
    tellUntold();
    await clock.advance(60_000);
    expect(told()).toEqual(ended); // nothing twice
    log.error('request failed');
    log.error('request failed');
    tellUntold();
    expect(told().slice(5)).toEqual([{}, { untold: 1 }]);
  });

  it('leaves no listener behind at the process, however many loggers have counted', async () => {
    const before = process.listenerCount('exit');
    const beds = Array.from({ length: 20 }, bed);
    for (const { log } of beds) for (let at = 0; at < 2; at++) log.warn('away');
    expect(process.listenerCount('exit')).toBeLessThanOrEqual(before + 1);
    for (const { clock } of beds) await clock.advance(10_000);
    expect(process.listenerCount('exit')).toBe(before);
  });

  it('is new after a pause in which it did not come', async () => {
    const { clock, log, told } = bed();
    log.warn('away');
    await clock.advance(10_000);
    log.warn('away');
    expect(told()).toEqual([{}, {}]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('keeps apart what differs in a field, and counts as one what there is no room for', async () => {
    const { clock, log, lines, told } = bed();
    for (let at = 0; at < 10_000; at++) log.warn('bad message', { text: `${at}` });
    expect(lines).toHaveLength(9);
    await clock.advance(10_000);
    expect(lines).toHaveLength(10);
    expect(told()[9]).toEqual({ text: '9999', untold: 9991 });
    log.warn('another message', { text: '1' });
    expect(lines).toHaveLength(11);
  });

  it('has the fields of its logger, which also keep it apart; other levels pass', () => {
    const { log, told } = bed();
    for (const worker of ['a', 'b', 'a']) log.with({ worker }).warn('away', { reason: 'x' });
    expect(told()).toEqual([
      { worker: 'a', reason: 'x' },
      { worker: 'b', reason: 'x' },
    ]);
    for (let at = 0; at < 3; at++) {
      log.info('here', { at: 1 });
      log.debug('here');
    }
    expect(told()).toHaveLength(8);
  });
});

describe('the logger of a process', () => {
  it('counts what repeats in every part, and has each line of an engine', async () => {
    const clock = new VirtualClock();
    const { logger, lines } = captureLogger();
    const log = countAllRepeats(logger, clock);
    for (let at = 0; at < 1000; at++) {
      log.for('discovery').warn('discovery problem', { problem: 'the table answers 500' });
      log.for('events').warn('event plane problem', { problem: `message ${at} of nobody` });
      log.for('engine').error('    raise RuntimeError');
      log.error('request failed');
      await clock.advance(1);
    }
    const count = (target: string): number => lines.filter((line) => line.target === target).length;
    expect([count('discovery'), count('events'), count('engine'), count('stator')]).toEqual([1, 9, 1000, 1]);
  });

  it('remembers a bounded number of lines, whatever they say', () => {
    const { log, lines } = bed();
    for (let at = 0; at < 10_000; at++) log.warn(`message ${at}`);
    expect(lines.length).toBeLessThan(300);
  });

  it.each([
    ['end', 0],
    ['exit', 3],
    ['throw', 1],
  ])('tells what it has left out before the process ends by %s', async (how, code) => {
    const ending = await spawnTypeScript(ENTRY, [how]);
    expect(await ending.exited).toBe(code);
    expect(ending.stderr()).toMatch(/ away reason=timeout\n[\s\S]* away reason=timeout untold=3\n/);
  });

  it('writes what it has left out when the process must stop, however long it drains', async () => {
    const draining = await spawnTypeScript(ENTRY, ['signal']);
    await draining.waitForOutput(/ away reason=timeout\n/);
    draining.signal('SIGTERM');
    await draining.waitForOutput(/ away reason=timeout untold=3\n/, 9000); // before its time comes
    await draining.kill();
  });
});
