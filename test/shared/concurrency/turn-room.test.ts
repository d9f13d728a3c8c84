import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { connectionArrived, hasTurnRoom, spendOfTurn, whenTurnHasRoom } from '../../../shared/concurrency/index.ts';

const KIB = 1024;

beforeEach(async () => {
  while (!hasTurnRoom()) await nextTurn();
});

describe('the room of a turn', () => {
  it('is there again in the next turn', async () => {
    expect(hasTurnRoom()).toBe(true);
    spendOfTurn(11600 * KIB);
    expect(hasTurnRoom()).toBe(false);
    await nextTurn();
    expect(hasTurnRoom()).toBe(true);
  });

  it('goes to those who wait in their order, and to no more of them than it is enough for', async () => {
    const done: string[][] = [[]];
    const part = (name: string, left: number) => (): void => {
      done.at(-1)!.push(name);
      spendOfTurn(1600 * KIB);
      if (left > 1) whenTurnHasRoom(part(name, left - 1));
    };
    for (const name of ['a', 'b', 'c', 'd']) whenTurnHasRoom(part(name, 2));
    expect(hasTurnRoom()).toBe(false); // what waits goes first
    while (!hasTurnRoom()) {
      await nextTurn();
      if (done.at(-1)!.length > 0) done.push([]);
    }
    expect(done.filter((turn) => turn.length > 0)).toEqual([
      ['a', 'b', 'c'],
      ['d', 'a', 'b'],
      ['c', 'd'],
    ]);
  });

  it('is left to connections while they arrive one a turn, but not for ever', async () => {
    let ran = 0;
    const work = (): void => {
      ran++;
      spendOfTurn(11600 * KIB);
      whenTurnHasRoom(work);
    };
    connectionArrived();
    whenTurnHasRoom(work);
    for (let turn = 0; turn < 50; turn++) {
      await nextTurn();
      connectionArrived();
    }
    expect(ran).toBe(0);
    for (let turn = 0; turn < 600; turn++) {
      await nextTurn();
      connectionArrived();
    }
    expect(ran).toBeGreaterThan(5);
    expect(ran).toBeLessThan(20);
  });
});
