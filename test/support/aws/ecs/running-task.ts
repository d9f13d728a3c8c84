import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Balancer } from './balancer.ts';
import type { ContainerDependency, ContainerPlan } from './containers.ts';
import type { TimeScales } from './failure-count.ts';
import { type Localize, localizeFor, type Machine, type Ports } from './machine.ts';
import { RunningContainer } from './running-container.ts';
import type { ServicePlan, TaskPlan } from './services.ts';

export type TaskStatus = 'starting' | 'healthy' | 'unhealthy' | 'stopping' | 'stopped';

export interface TaskPlace {
  readonly service: ServicePlan;
  /** Key for the ports of the task. A task that replaces another one keeps its slot, and so its addresses. */
  readonly slot: string;
  readonly zone: string;
  readonly machine: Machine;
  readonly ports: Ports;
  readonly machineOf: (host: string) => string | undefined;
  readonly scales: TimeScales;
  /**
   * @default there is no balancer
   */
  readonly balancer: Balancer | undefined;
}

/**
 * A task, whose containers are processes of this machine. They share its ports, and each keeps its disks until the task
 * ends.
 */
export class RunningTask {
  readonly plan: TaskPlan;
  readonly place: TaskPlace;
  /** Reason why the task must end, or empty. */
  reason = '';
  readonly #containers = new Map<string, RunningContainer>();
  /** Folder in which its containers run. */
  readonly folder: string;
  #localize: Localize = (text) => text;
  #isPrepared = false;
  #isStopping = false;
  #isStopped = false;
  #isLost = false;

  private constructor(plan: TaskPlan, place: TaskPlace) {
    this.plan = plan;
    this.place = place;
    this.folder = mkdtempSync(join(place.machine.folder, 'task-'));
  }

  static start(plan: TaskPlan, place: TaskPlace): RunningTask {
    const task = new RunningTask(plan, place);
    void task.#prepare().catch((error: Error) => task.#giveUp(error.message));
    return task;
  }

  get status(): TaskStatus {
    if (this.#isStopped) return 'stopped';
    if (this.#isStopping) return 'stopping';
    if (this.reason !== '') return 'unhealthy';
    const essential = this.plan.containers.filter(({ isEssential }) => isEssential);
    const isGood = ({ name, health }: ContainerPlan): boolean => {
      const container = this.#containers.get(name);
      return container?.isRunning === true && (health === undefined || container.health === 'healthy');
    };
    const { balancer, service, slot } = this.place;
    const isReached = balancer === undefined || balancer.isHealthy(service, slot);
    return essential.every(isGood) && isReached ? 'healthy' : 'starting';
  }

  /** Returns the port of this machine for a port of a container. */
  portOf(port: number): Promise<number> {
    return this.place.ports.of(this.place.slot, port);
  }

  /** Returns the output of its containers. */
  output(): string {
    const texts = [...this.#containers].map(
      ([name, { process }]) => `--- ${name}\n${process.stdout()}${process.stderr()}`,
    );
    return texts.join('\n');
  }

  /** Checks its containers: starts those whose turn has come, and sets `reason` if the task cannot continue. */
  look(): void {
    if (this.#isStopping || this.#isStopped || this.#isLost || this.reason !== '') return;
    for (const plan of this.plan.containers) {
      const container = this.#containers.get(plan.name);
      if (container === undefined) continue;
      if (container.health === 'unhealthy' && plan.isEssential) {
        this.reason = `container ${plan.name} is unhealthy: its check failed ${plan.health?.retries} times in a row`;
      } else if (!container.isRunning) this.#lookAtEnded(container);
    }
    this.#startNext();
  }

  /** Kills the process of a container, as a lack of memory would. */
  async kill(name: string = this.plan.containers[0]?.name ?? ''): Promise<void> {
    await this.#containers.get(name)?.process.kill();
  }

  /** Silences the task, as the loss of its zone would: it neither receives nor sends anything. */
  lose(): void {
    this.#isLost = true;
    for (const container of this.#containers.values()) container.freeze();
  }

  /** Takes the task from the load balancer, ends its containers as ECS does, and deletes its disks. */
  async stop(why: string): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.reason ||= why;
    await this.place.balancer?.deregister(this.place.slot, this.#isLost);
    const containers = [...this.#containers.values()];
    await Promise.all(containers.map((each) => (this.#isLost ? each.process.kill() : each.stop())));
    rmSync(this.folder, { recursive: true, force: true });
    this.#isStopped = true;
  }

  /** Ends the task at once, in any state. */
  async end(): Promise<void> {
    this.#isLost = true;
    await Promise.all([...this.#containers.values()].map(({ process }) => process.kill()));
    await this.stop('the rehearsal is over');
  }

  async #prepare(): Promise<void> {
    const mounts = this.plan.containers.flatMap(({ mounts }) => Object.entries(mounts));
    const folders = Object.fromEntries(mounts.map(([volume, path]) => [path, join(this.folder, volume)]));
    for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true });
    const images = this.plan.containers.map(({ image }) => this.place.machine.imageOf(image));
    this.#localize = await localizeFor(this.plan, {
      ...this.place,
      machine: this.place.slot,
      folders: Object.assign({}, ...images.map((image) => image.folders), folders) as Record<string, string>,
    });
    await this.place.balancer?.register(this.place.service, this.place.slot);
    this.#isPrepared = true;
  }

  #startNext(): void {
    if (!this.#isPrepared || this.reason !== '') return;
    for (const plan of this.plan.containers) {
      if (!this.#containers.has(plan.name) && plan.dependencies.every((each) => this.#isMet(each))) this.#run(plan);
    }
  }

  #run(plan: ContainerPlan): void {
    const { machine, scales } = this.place;
    const secrets = Object.entries(plan.secrets).map(([name, from]) => [name, machine.secretOf(from)]);
    const environment = { ...Object.fromEntries(secrets), ...machine.environmentOf?.(this.plan) };
    const image = machine.imageOf(plan.image);
    const start = { image, environment, scales, localize: this.#localize, folder: this.folder };
    this.#containers.set(plan.name, new RunningContainer(plan, start));
  }

  #isMet({ container: name, condition }: ContainerDependency): boolean {
    const container = this.#containers.get(name);
    switch (condition) {
      case 'START':
        return container !== undefined;
      case 'HEALTHY':
        return container?.health === 'healthy';
      case 'COMPLETE':
        return container !== undefined && !container.isRunning;
      case 'SUCCESS':
        return container?.exitCode === 0;
    }
  }

  #lookAtEnded({ plan, exitCode }: RunningContainer): void {
    if (plan.isEssential) this.reason = `container ${plan.name} ended (${exitCode ?? 'killed'})`;
    else if (plan.isRestarted) this.#run(plan);
  }

  #giveUp(message: string): void {
    this.reason ||= message;
  }
}
