import { appendFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startFakeQueue } from '../support/aws/fake-queue.ts';
import { type ChatStream, openChat, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { HostBed } from './host-bed.ts';

const LONG = {
  model: 'stator-mini',
  messages: [{ role: 'user', content: 'What if a machine must end?' }],
  max_tokens: 1000,
  ignore_eos: true,
};
const COMPLETE = 'CompleteLifecycleAction';

describe('stator host', () => {
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '2' });
  let frontend: StatorProcess;
  let bed: HostBed | undefined;

  beforeAll(async () => {
    frontend = await fleet.frontend();
  });

  afterEach(async () => {
    await bed?.stop();
    bed = undefined;
    await fleet.untilWorkers(frontend, 0);
  });

  async function launched(...args: Parameters<typeof HostBed.launch> extends [unknown, ...infer R] ? R : never) {
    bed = await HostBed.launch(fleet, ...args);
    return bed;
  }

  async function serving(...args: Parameters<typeof launched>): Promise<HostBed> {
    const host = await launched(...args);
    host.start();
    await host.until('InService');
    await fleet.untilWorkers(frontend, 2);
    await host.untilLaunchIsKept();
    return host;
  }

  async function opened(count: number): Promise<readonly ChatStream[]> {
    const streams = await Promise.all(Array.from({ length: count }, () => openChat(frontend.url, LONG)));
    await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
    return streams;
  }

  async function expectWhole(streams: readonly ChatStream[]): Promise<void> {
    for (const { answer } of streams) {
      expect(await answer).toMatchObject({ finishReason: 'length', error: undefined, isDone: true });
    }
  }

  it('lets an instance into service only once all of its workers are registered', async () => {
    const host = await launched({ STATOR_HOST_WORKER_ARGUMENTS: '["--engine=mocker","--startup-time=3"]' });
    await host.until('Pending:Wait');
    host.start();
    await waitUntil(async () => (await host.health()).start_phase === 'engine');
    expect(host.instance.state).toBe('Pending:Wait');
    await host.until('InService');
    for (const at of [0, 1]) expect((await fetch(`http://127.0.0.1:${host.statusPort + at}/health`)).status).toBe(200);
    await fleet.untilWorkers(frontend, 2);
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE']);
    expect(host.calls('RecordLifecycleActionHeartbeat').length).toBeGreaterThan(0);
    await host.untilPhase('serving');
    const metrics = await host.metrics();
    expect(metrics).toMatch(/stator_host_start_phase_seconds\{phase="engine"\} [1-9]/);
    expect(metrics).toContain('stator_host_gpu_temperature_celsius{gpu="1"} 42');
  });

  it('gives a launch up when a worker ends twice', async () => {
    const host = await launched();
    const taken = createServer().listen(host.statusPort, '127.0.0.1'); // a worker without its port ends
    host.start();
    await waitUntil(() => host.calls(COMPLETE).length > 0, { timeoutMs: 30_000 });
    taken.close();
    expect(host.calls(COMPLETE)[0]).toBe('launch ABANDON');
    expect(host.agent?.stderr()).toMatch(/worker 0 has ended 2 times during the start/);
  });

  it('prepares a warm instance without registering anything, and serves once it leaves the pool', async () => {
    const warmPool = { minSize: 1, state: 'Running', reuses: true } as const;
    const host = await launched({}, { group: { desired: 0, warmPool } });
    host.start();
    await host.until('Warmed:Running');
    await host.untilPhase('warm');
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE']);
    await fleet.untilWorkers(frontend, 0);
    const { SetDesiredCapacityCommand } = await import('@aws-sdk/client-auto-scaling');
    await host.scaling
      .client()
      .send(new SetDesiredCapacityCommand({ AutoScalingGroupName: 'chat-0-on-demand', DesiredCapacity: 1 }));
    await host.until('InService');
    await fleet.untilWorkers(frontend, 2);
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE', 'launch CONTINUE']);
  });

  it('ends an instance with 20 streams without cutting one, by one completed action', async () => {
    const host = await serving({ STATOR_HOST_HEARTBEAT_SECS: '0.2' }); // a busy machine leaves little of the streams
    const streams = await opened(20);
    await host.terminate();
    await expectWhole(streams);
    await host.until('Terminated');
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    expect(host.calls('RecordLifecycleActionHeartbeat')).toContain('terminate');
    expect(host.workerPids()).toEqual([]);
  });

  it('moves the streams of an instance that Spot takes back', async () => {
    const queue = await startFakeQueue();
    const told = { STATOR_PLANNER_QUEUE_URL: `${queue.url}/1/planner.fifo`, STATOR_SQS_ENDPOINT: queue.url };
    const host = await serving(told, { instance: { lifeCycle: 'spot' }, hookMs: 1500 });
    const streams = await opened(6);
    const other = await fleet.worker();
    await fleet.untilWorkers(frontend, 3);
    const before = Date.now();
    host.imds.announceSpot('terminate', new Date(before + 120_000));
    await expectWhole(streams);
    await host.untilPhase('drained');
    expect(Date.now() - before).toBeLessThan(90_000);
    const completions = () => [...new Set(host.calls(COMPLETE))];
    expect(completions()).toEqual(['launch CONTINUE']); // Auto Scaling has not asked yet
    await host.terminate();
    await host.until('Terminated'); // though Auto Scaling opens the hook later than the agent completes it
    expect(completions()).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    const interrupts = queue.events.filter(({ type }) => type === 'capacity.interrupt');
    const phases = queue.events.filter(({ type }) => type === 'host.phase');
    expect(phases.at(-1)).toMatchObject({ phase: 'serving', instance_id: host.instance.id });
    expect(phases.at(-1)?.took_s).toMatchObject({ boot: expect.any(Number), engine: expect.any(Number) });
    expect(interrupts).toMatchObject([{ kind: 'spot-warning', instance_id: host.instance.id, model: 'stator-mini' }]);
    await other.kill();
    await queue.stop();
  });

  it('goes on with the drain of an agent that was killed', async () => {
    const host = await serving();
    const streams = await opened(4);
    await host.terminate();
    await host.agent?.waitForOutput(/worker is draining[\s\S]*worker is draining/);
    await host.agent?.kill();
    expect(host.workerPids()).toHaveLength(2); // the workers have outlived it
    const next = host.start();
    await next.waitForOutput(/worker taken over worker=1 .*told=drain/);
    await expectWhole(streams);
    expect(next.stderr()).not.toContain('wish=drain'); // a worker that hears it twice ends at once
    await host.until('Terminated');
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
  });

  it('leaves the end to the time-out of the hook if no agent comes back', async () => {
    const host = await serving({}, { terminateSecs: 2 });
    const streams = await opened(4);
    await host.terminate();
    await host.untilPhase('draining');
    await host.agent?.kill();
    await host.until('Terminated'); // by the time-out: no agent completes the action
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE']);
    await expectWhole(streams); // the workers drain without the agent
  });

  it('runs containers, which outlive the agent too', async () => {
    const host = await serving({
      STATOR_HOST_RUNNER: 'docker',
      STATOR_HOST_WORKER_IMAGE: 'registry/worker@sha256:0f3c',
    });
    const runs = () => host.docker.calls().filter(([verb]) => verb === 'run');
    const devices = runs().map((words) => words[words.indexOf('--gpus') + 1]);
    expect(devices.sort()).toEqual(['device=0', 'device=1']);
    expect(host.docker.calls().filter(([verb]) => verb === 'pull')).toHaveLength(1);
    await host.agent?.kill();
    host.start();
    await host.untilPhase('serving');
    expect(runs()).toHaveLength(2);
    const streams = await opened(4);
    await host.terminate();
    await expectWhole(streams);
    await host.until('Terminated');
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    expect(host.docker.pids()).toEqual([]);
  });

  it('reports an instance whose driver has lost a GPU, and drains it', async () => {
    const host = await serving();
    const streams = await opened(4);
    appendFileSync(
      host.kernelLog,
      '3,1042,9000000,-;NVRM: Xid (PCI:0000:65:00): 79, pid=4242, GPU has fallen off the bus.\n',
    );
    await waitUntil(() => host.calls('SetInstanceHealth').length > 0);
    await expectWhole(streams);
    await host.untilPhase('drained');
    expect(await host.metrics()).toContain('stator_host_gpu_xids_total{xid="79"} 1');
    expect(host.calls('SetInstanceHealth')).toHaveLength(1);
  });

  it('takes over running workers after its own end, without a second launch', async () => {
    const host = await serving();
    const pids = host.workerPids();
    await host.agent?.kill();
    host.start();
    await host.untilPhase('serving');
    expect(host.workerPids()).toEqual(pids);
    expect(host.calls(COMPLETE)).toEqual(['launch CONTINUE']);
  });
});
