import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { systemRandom } from '../../../../shared/clock/index.ts';
import { freePorts } from '../../../../shared/engines/server/engine-process.ts';
import { freePort } from '../../../support/index.ts';

describe('ports for an engine', () => {
  it('lie where no outgoing connection takes them, and neighbours where several are asked for', async () => {
    for (let at = 0; at < 20; at++) {
      const base = await freePorts(3);
      expect(base).toBeGreaterThanOrEqual(10_000);
      expect(base + 2).toBeLessThan(32_768);
    }
  });

  it('are no port that is taken', async () => {
    const [taken, free] = [await freePort(), await freePort()];
    const server = createServer().listen(taken, '127.0.0.1');
    await once(server, 'listening');
    const drawn = [taken, free];
    const random = { ...systemRandom, below: () => (drawn.shift() ?? taken) - 10_000 };
    expect(await freePorts(1, 0, random)).toBe(free);
    await expect(freePorts(1, 0, random)).rejects.toThrow('no 1 free TCP ports');
    server.close();
  });
});
