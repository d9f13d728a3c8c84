import { expect, it } from 'vitest';
import { UNPROVEN_MAX, Unproven } from '../../../../../shared/planes/request/frames/unproven.ts';

it('closes the oldest connections, also if more come before a socket has closed', () => {
  const closed: number[] = [];
  const unproven = new Unproven<number>((connection) => closed.push(connection));
  for (let at = 0; at < UNPROVEN_MAX; at++) unproven.add(at);
  unproven.delete(1);
  unproven.add(UNPROVEN_MAX);
  expect(closed).toEqual([]);
  for (let more = 1; more <= 3; more++) unproven.add(UNPROVEN_MAX + more);
  expect(closed).toEqual([0, 2, 3]);
});
