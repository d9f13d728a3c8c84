import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../shared/clock/index.ts';
import {
  type FakeAutoScaling,
  type FakeInstance as GroupInstance,
  type GroupSpec,
  startAutoScaling,
} from '../support/aws/auto-scaling/index.ts';
import { type FakeImds, type FakeInstance, startFakeImds } from '../support/aws/fake-imds.ts';
import { type Fleet, freePort, freePorts, type SpawnedProcess, waitUntil } from '../support/index.ts';
import { type StandInDocker, standInDocker } from '../support/stand-in-docker.ts';

const GROUP = 'chat-0-on-demand';
const PROGRAM = fileURLToPath(new URL('../../dist/stator.js', import.meta.url));
const START_MS_MAX = 40_000;
/** Time-out of the hooks of deployed fleets. A shorter one would end launches of a busy machine. */
const HOOK_SECS = 300;

/** Stand-in for `nvidia-smi`: prints the file `gpus` beside it, and hangs for ever while there is a file `hangs`. */
const NVIDIA_SMI = `#!/bin/sh
here=$(dirname "$0")
if [ -e "$here/hangs" ]; then exec sleep 3600; fi
cat "$here/gpus"
`;

interface LaunchOptions {
  readonly group?: Partial<GroupSpec>;
  readonly instance?: FakeInstance;
  /** Heartbeat time-out of the terminate hook, in seconds. @default that of the deployed fleets */
  readonly terminateSecs?: number;
  /** Time until a hook is open, in milliseconds. @default 0 */
  readonly hookMs?: number;
}

/** An instance of an Auto Scaling group with a real agent and real workers. */
export class HostBed {
  readonly folder = mkdtempSync(join(tmpdir(), 'host-'));
  readonly fleet: Fleet;
  readonly scaling: FakeAutoScaling;
  readonly imds: FakeImds;
  readonly hostPort: number;
  readonly statusPort: number;
  readonly #workerPort: number;
  readonly #extra: Readonly<Record<string, string>>;
  /** Instance as Auto Scaling knows it. */
  readonly instance: GroupInstance;
  readonly docker: StandInDocker;
  agent: SpawnedProcess | undefined;

  private constructor(
    fleet: Fleet,
    servers: { scaling: FakeAutoScaling; imds: FakeImds; instance: GroupInstance },
    ports: { host: number; status: number; worker: number },
    extra: Readonly<Record<string, string>>,
  ) {
    this.fleet = fleet;
    this.scaling = servers.scaling;
    this.imds = servers.imds;
    this.instance = servers.instance;
    this.hostPort = ports.host;
    this.statusPort = ports.status;
    this.#workerPort = ports.worker;
    this.#extra = extra;
    this.docker = standInDocker(this.folder);
    mkdirSync(join(this.folder, 'bin'));
    writeFileSync(join(this.folder, 'bin', 'nvidia-smi'), NVIDIA_SMI);
    chmodSync(join(this.folder, 'bin', 'nvidia-smi'), 0o755);
    writeFileSync(join(this.folder, 'bin', 'gpus'), '0, 3, 1024, 46068, 41, 0\n1, 5, 1024, 46068, 42, 0\n');
    writeFileSync(this.kernelLog, '');
  }

  /** Launches one instance. @param env further settings of its agent */
  static async launch(
    fleet: Fleet,
    env: Readonly<Record<string, string>> = {},
    { group = {}, instance = {}, terminateSecs, hookMs = 0 }: LaunchOptions = {},
  ): Promise<HostBed> {
    let imds: FakeImds | undefined;
    const scaling = await startAutoScaling({
      clock: systemClock,
      times: { launchMs: 0, terminateMs: 0, warmStartMs: 0, hookMs },
      groups: [groupSpec(group, terminateSecs)],
      onState: ({ target }) => imds?.setTarget(target),
    });
    const [first] = await waitUntil(() => {
      const launched = scaling.instances(GROUP);
      return launched.length > 0 && launched;
    });
    if (first === undefined) throw new Error('no instance was launched');
    imds = await startFakeImds({ instanceId: first.id, target: first.target, ...instance });
    const ports = { host: await freePort(), status: await freePorts(2), worker: await freePorts(2) };
    return new HostBed(fleet, { scaling, imds, instance: first }, ports, env);
  }

  /** File that stands for the kernel log. */
  get kernelLog(): string {
    return join(this.folder, 'kmsg');
  }

  /** Starts the agent of the instance: at its boot, or as systemd does after its end. */
  start(): SpawnedProcess {
    this.agent = this.fleet.spawn(['host'], {
      DYN_DISCOVERY_BACKEND: 'file',
      DYN_FILE_KV: this.fleet.fileKv,
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
      DYN_SYSTEM_HOST: '127.0.0.1',
      DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '1',
      PATH: `${join(this.folder, 'bin')}:${this.docker.bin}:${process.env.PATH}`,
      STAND_IN_ENTRY: `${process.execPath} ${PROGRAM}`,
      STATOR_HOST_GROUP: GROUP,
      STATOR_HOST_LAUNCH_HOOK: 'launch',
      STATOR_HOST_TERMINATE_HOOK: 'terminate',
      STATOR_HOST_RUNNER: 'process',
      STATOR_HOST_WORKER_ARGUMENTS: '["--engine=mocker"]',
      STATOR_HOST_START_SECS: '30',
      STATOR_HOST_DRAIN_SECS: '30',
      STATOR_HOST_HEARTBEAT_SECS: '1',
      STATOR_HOST_POLL_SECS: '0.2',
      STATOR_HOST_DIR: join(this.folder, 'state'),
      STATOR_HOST_KERNEL_LOG: this.kernelLog,
      STATOR_HOST_PORT: String(this.hostPort),
      STATOR_HOST_ADDRESS: '127.0.0.1',
      STATOR_HOST_STATUS_PORT: String(this.statusPort),
      STATOR_HOST_WORKER_PORT: String(this.#workerPort),
      STATOR_IMDS_URL: this.imds.url,
      AWS_ENDPOINT_URL_AUTO_SCALING: this.scaling.url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      ...this.#extra,
    });
    return this.agent;
  }

  /** Process ids of the workers that run. */
  workerPids(): readonly number[] {
    const folder = join(this.folder, 'state', 'workers');
    const marks = readdirSync(folder).filter((name) => name.endsWith('.json'));
    return marks.map((name) => (JSON.parse(readFileSync(join(folder, name), 'utf8')) as { pid: number }).pid);
  }

  async health(): Promise<{ status: string; reason?: string; start_phase?: string; workers: { state: string }[] }> {
    return (await (await fetch(`http://127.0.0.1:${this.hostPort}/health`)).json()) as never; // as the agent writes it
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.hostPort}/metrics`)).text();
  }

  async until(state: string): Promise<void> {
    await waitUntil(() => this.instance.state === state || this.instance.history.at(-1) === state, {
      timeoutMs: START_MS_MAX,
      what: `state ${state}`,
    });
  }

  async untilPhase(phase: string): Promise<void> {
    const isThere = async (): Promise<boolean> => (await this.health()).status === phase;
    await waitUntil(isThere, { timeoutMs: START_MS_MAX, what: `phase ${phase}` });
  }

  /** Waits until a new agent would know that the launch is over. */
  async untilLaunchIsKept(): Promise<void> {
    const path = join(this.folder, 'state', 'state.json');
    await waitUntil(() => readFileSync(path, 'utf8').includes('"isLaunched":true'));
  }

  /** Calls of the agent to Auto Scaling, as `action hook result`. */
  calls(action: string): readonly string[] {
    return this.scaling.faults.calls
      .filter((call) => call.action === action)
      .map(({ parameters }) =>
        [parameters.LifecycleHookName, parameters.LifecycleActionResult].filter(Boolean).join(' '),
      );
  }

  async terminate(): Promise<void> {
    const { TerminateInstanceInAutoScalingGroupCommand } = await import('@aws-sdk/client-auto-scaling');
    const input = { InstanceId: this.instance.id, ShouldDecrementDesiredCapacity: true };
    await this.scaling.client().send(new TerminateInstanceInAutoScalingGroupCommand(input));
  }

  /** Ends everything of the instance, as the end of a machine does. */
  async stop(): Promise<void> {
    await this.agent?.kill();
    for (const pid of this.#leftPids()) {
      try {
        process.kill(-pid, 'SIGKILL');
      } catch {
        // it has ended
      }
    }
    await this.imds.stop();
    await this.scaling.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #leftPids(): readonly number[] {
    const containers = this.docker.pids();
    try {
      return [...containers, ...this.workerPids()];
    } catch {
      return containers; // no worker process was ever started
    }
  }
}

function groupSpec(group: Partial<GroupSpec>, terminateSecs?: number): GroupSpec {
  const hook = (
    name: string,
    transition: 'EC2_INSTANCE_LAUNCHING' | 'EC2_INSTANCE_TERMINATING',
    heartbeatSecs = HOOK_SECS,
  ) => ({
    name,
    transition: `autoscaling:${transition}` as const,
    heartbeatSecs,
    defaultResult: 'ABANDON' as const,
  });
  return {
    name: GROUP,
    types: ['g6e.12xlarge'],
    zones: ['us-east-1b'],
    desired: 1,
    max: 2,
    hooks: [hook('launch', 'EC2_INSTANCE_LAUNCHING'), hook('terminate', 'EC2_INSTANCE_TERMINATING', terminateSecs)],
    ...group,
  };
}
