import { describe, expect, it } from 'vitest';
import { ReservedRequests } from '../../../../shared/worker/events/event-records.ts';

describe('requests with a reservation', () => {
  it('are published once as they come and go', () => {
    const requests = new ReservedRequests();
    expect(requests.take()).toBeUndefined();
    requests.arrived('a');
    requests.arrived('b');
    requests.left('a');
    expect(requests.take()).toEqual({ arrived: ['a', 'b'], left: ['a'] });
    expect(requests.take()).toBeUndefined();
    requests.left('b');
    expect(requests.take()).toEqual({ arrived: [], left: ['b'] });
  });

  it('are bounded', () => {
    const requests = new ReservedRequests();
    for (let at = 0; at < 70_000; at++) requests.arrived(`${at}`);
    expect(requests.take()?.arrived).toHaveLength(65_536);
  });
});
