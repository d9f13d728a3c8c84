import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FakeAutoScaling, FakeInstance as GroupInstance } from '../support/aws/auto-scaling/index.ts';
import { type FakeImds, type FakeInstance, startFakeImds } from '../support/aws/fake-imds.ts';
import { type Fleet, freePort, freePorts, type SpawnedProcess, waitUntil } from '../support/index.ts';
import { type StandInDocker, standInDocker } from '../support/stand-in-docker.ts';

const PROGRAM = fileURLToPath(new URL('../../dist/stator.js', import.meta.url));
const START_MS_MAX = 40_000;
/** Looks at a worker, one after the other, that show whether a request lasts. */
const LOOKS = 8;
/** Most workers of a machine: their ports are in a row. */
const WORKERS_MAX = 2;

/** Stand-in for `nvidia-smi`: prints the file `gpus` beside it, and hangs for ever while there is a file `hangs`. */
const NVIDIA_SMI = `#!/bin/sh
here=$(dirname "$0")
if [ -e "$here/hangs" ]; then exec sleep 3600; fi
cat "$here/gpus"
`;

export interface MachineOptions {
  readonly fleet: Pick<Fleet, 'spawn'>;
  readonly scaling: Pick<FakeAutoScaling, 'url'>;
  /** Settings of its agent and workers. */
  readonly env: Readonly<Record<string, string>>;
  /** Facts of its metadata, in place of those of the instance. */
  readonly facts?: FakeInstance;
  /** @default 2 */
  readonly gpus?: number;
}

/** Machine of an instance of an Auto Scaling group, for a real agent and real workers. */
export class HostMachine {
  readonly folder = mkdtempSync(join(tmpdir(), 'host-'));
  /** Instance as Auto Scaling knows it. */
  readonly instance: GroupInstance;
  readonly imds: FakeImds;
  readonly hostPort: number;
  readonly statusPort: number;
  readonly docker: StandInDocker;
  agent: SpawnedProcess | undefined;
  readonly #workerPort: number;
  readonly #options: MachineOptions;

  protected constructor(
    instance: GroupInstance,
    imds: FakeImds,
    ports: { host: number; status: number; worker: number },
    options: MachineOptions,
  ) {
    this.instance = instance;
    this.imds = imds;
    this.hostPort = ports.host;
    this.statusPort = ports.status;
    this.#workerPort = ports.worker;
    this.#options = options;
    this.docker = standInDocker(this.folder);
    mkdirSync(join(this.folder, 'bin'));
    writeFileSync(join(this.folder, 'bin', 'nvidia-smi'), NVIDIA_SMI);
    chmodSync(join(this.folder, 'bin', 'nvidia-smi'), 0o755);
    const rows = Array.from({ length: options.gpus ?? 2 }, (_, at) => `${at}, 3, 1024, 46068, ${41 + at}, 0\n`);
    writeFileSync(join(this.folder, 'bin', 'gpus'), rows.join(''));
    writeFileSync(this.kernelLog, '');
  }

  /** Gives an instance its metadata, folders and ports. Its owner calls `follow` when Auto Scaling changes it. */
  static async boot(instance: GroupInstance, options: MachineOptions): Promise<HostMachine> {
    const { imds, ports } = await HostMachine.parts(instance, options);
    return new HostMachine(instance, imds, ports, options);
  }

  protected static async parts(instance: GroupInstance, { facts = {} }: MachineOptions) {
    const ports = {
      host: await freePort(),
      status: await freePorts(WORKERS_MAX),
      worker: await freePorts(WORKERS_MAX),
    };
    const { id, type, zone, market } = instance;
    const imds = await startFakeImds({ instanceId: id, instanceType: type, zone, lifeCycle: market, ...facts });
    imds.setTarget(instance.target);
    return { imds, ports };
  }

  /** Shows in the metadata what Auto Scaling wants of the instance. */
  follow(): void {
    this.imds.setTarget(this.instance.target);
  }

  /** File that stands for the kernel log. */
  get kernelLog(): string {
    return join(this.folder, 'kmsg');
  }

  /** Starts the agent of the instance: at its boot, or as systemd does after its end. */
  start(): SpawnedProcess {
    const { fleet, scaling, env } = this.#options;
    this.agent = fleet.spawn(['host'], {
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_EVENT_PLANE_HOST: '127.0.0.1',
      DYN_SYSTEM_HOST: '127.0.0.1',
      DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '1',
      PATH: `${join(this.folder, 'bin')}:${this.docker.bin}:${process.env.PATH}`,
      STAND_IN_ENTRY: `${process.execPath} ${PROGRAM}`,
      STATOR_HOST_GROUP: this.instance.group.name,
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
      AWS_ENDPOINT_URL_AUTO_SCALING: scaling.url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      ...env,
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

  /** Whether its first worker answers a request that lasts, and not only short ones that come and go. */
  async isStreaming(): Promise<boolean> {
    for (let look = 0; look < LOOKS; look++) {
      const text = await (await fetch(`http://127.0.0.1:${this.statusPort}/metrics`)).text();
      if (!/^dynamo_component_inflight_requests\S* [1-9]/m.test(text)) return false;
    }
    return true;
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
