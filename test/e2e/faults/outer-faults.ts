import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  hasNatsServer,
  type NatsServer,
  startNatsServer,
  startTcpProxy,
  type TcpProxy,
  waitUntil,
} from '../../support/index.ts';
import { type Cell, expectWhole, type MatrixBed, type Role, type Run, useMatrixBed } from './matrix-bed.ts';

const INFLIGHT = 'dynamo_component_inflight_requests';

/** A draining worker is no longer in the bed's care, and ends by itself. */
async function seeOut({ isDraining, victim }: Run): Promise<void> {
  if (isDraining) expect(await victim.exited).toBe(0);
}

/** The answer does not arrive, unless its last token was on its way. */
async function expectBroken({ stage, answer }: Run): Promise<void> {
  if (stage !== 'at the last token') await expect(answer).rejects.toThrow();
}

async function untilWorkersFree(bed: MatrixBed): Promise<void> {
  await waitUntil(async () => (await bed.sum(INFLIGHT, 'first')) + (await bed.sum(INFLIGHT, 'last')) === 0, {
    what: 'workers without requests',
  });
}

/** A client that stops reading, and the faults that befall neither clients nor workers. */
export function describeOuterFaults(pools: readonly Role[], cells: readonly Cell[]): void {
  describeSlowReader(pools, cells);
  describeDiscoveryAway(pools, cells);
  describeEventPlaneAway(pools, cells);
  describeKilledFrontend(pools, cells);
}

/** A client that leaves at a stage: its place is free at once, and it is counted. */
export async function expectLeft(bed: MatrixBed, { stage, form }: Cell): Promise<Run> {
  const cancelled = (): Promise<number> =>
    bed.frontend.metric('dynamo_frontend_model_cancellation_total', `request_type="${form}"`);
  const before = await cancelled();
  const run = await bed.reach(stage, form, { isLong: true });
  run.leave();
  await expectBroken(run);
  await bed.release();
  await waitUntil(async () => (await bed.frontend.metric('dynamo_frontend_inflight_requests')) === 0, {
    what: 'a frontend without requests',
  });
  await untilWorkersFree(bed);
  // At the last token there may have been nothing left to cancel.
  if (stage === 'at the last token') expect((await cancelled()) - before).toBeLessThanOrEqual(1);
  else expect(await cancelled()).toBe(before + 1);
  await seeOut(run);
  return run;
}

function describeSlowReader(pools: readonly Role[], cells: readonly Cell[]): void {
  describe('a client that stops reading', () => {
    const bed = useMatrixBed({ pools });
    afterEach(() => bed.mend());

    it.each(cells)(
      '$stage ($form): its worker is free before it reads on, and it gets everything',
      async ({ stage, form }) => {
        const run = await bed.reach(stage, form, { isSlow: true });
        await bed.release();
        await run.answered;
        await untilWorkersFree(bed);
        await seeOut(run);
        run.read();
        await expectWhole(run);
      },
    );
  });
}

function describeDiscoveryAway(pools: readonly Role[], cells: readonly Cell[]): void {
  describe('a discovery store that is away', () => {
    const bed = useMatrixBed({ pools });
    afterEach(() => bed.mend());

    it.each(cells)('$stage ($form): what is known goes on serving', async ({ stage, form }) => {
      const run = await bed.reach(stage, form);
      bed.takeDiscoveryAway();
      try {
        await expectWhole(run);
      } finally {
        bed.bringDiscoveryBack();
      }
      await seeOut(run);
    });
  });
}

function describeEventPlaneAway(pools: readonly Role[], cells: readonly Cell[]): void {
  describe.runIf(hasNatsServer())('an event plane that is away', () => {
    let nats: NatsServer;
    let proxy: TcpProxy;
    const env: Record<string, string> = { DYN_EVENT_PLANE: 'nats' };
    beforeAll(async () => {
      nats = await startNatsServer();
      proxy = await startTcpProxy({ host: '127.0.0.1', port: nats.port });
      env.NATS_SERVER = `nats://127.0.0.1:${proxy.port}`;
      return async () => {
        await proxy.close();
        await nats.stop();
      };
    });
    // Dynamo's formula deals equal prompts to both workers, as these cells need; the other one keeps them together.
    const bed = useMatrixBed({ pools, env, frontendArgs: ['--router-mode=kv', '--router-cost-model=dynamo'] });
    afterEach(async () => {
      proxy.restore();
      await bed.mend();
    });

    it.each(cells)('$stage ($form): requests go on as before', async ({ stage, form }) => {
      const run = await bed.reach(stage, form);
      proxy.cut();
      await expectWhole(run);
      await expectWhole({ ...run, answer: bed.ask(form, run.maxTokens).answer });
      proxy.restore();
      await bed.frontend.waitForOutput(/NATS is back/); // once at least: it was there, and away
      await seeOut(run);
    });
  });
}

function describeKilledFrontend(pools: readonly Role[], cells: readonly Cell[]): void {
  describe('a frontend that is killed', () => {
    const bed = useMatrixBed({ pools });
    afterEach(() => bed.mend());

    it.each(cells)(
      '$stage ($form): its workers drop what no client waits for, and the next frontend answers',
      async ({ stage, form }) => {
        const run = await bed.reach(stage, form, { isLong: true });
        await bed.frontend.kill();
        await expectBroken(run);
        await untilWorkersFree(bed);
        await seeOut(run);
        await bed.replaceFrontend();
        await bed.mend();
        await expectWhole({ ...run, answer: bed.ask(form, run.maxTokens).answer });
      },
    );
  });
}
