import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../../wait-until.ts';
import { Balancer } from './balancer.ts';
import type { TimeScales } from './failure-count.ts';
import { type Machine, Ports } from './machine.ts';
import { RunningService, slotOf } from './running-service.ts';
import type { RunningTask } from './running-task.ts';
import { readServices, type ServicePlan } from './services.ts';
import { type Templates, TemplateValues } from './values.ts';

export interface ClusterOptions {
  readonly machine: Machine;
  /** Factor for the intervals of health checks. @default 0.2 */
  readonly timeScale?: number;
  /**
   * Factor for the times until failed checks count, and until they make a task unhealthy. The default is 1, because
   * processes start and answer no faster here. @default 1
   */
  readonly patienceScale?: number;
}

/** Error of a deployment that CloudFormation would roll back. */
export class DeploymentFailed extends Error {}

const LOOK_MS = 20;
const STEADY_MS_MAX = 180_000;

/**
 * Acts as CloudFormation and ECS do on the services of templates, on this machine. It creates a service once the
 * services that it depends on are steady. It trusts a task once the task's own health check passes. It replaces tasks
 * in the order that the service allows.
 */
export class EcsCluster {
  /** Log of what happened, in order. */
  readonly events: string[] = [];
  readonly #machine: Machine;
  readonly #scales: TimeScales;
  readonly #ports = new Ports();
  readonly #services = new Map<string, RunningService>();
  readonly #lostZones = new Set<string>();
  /** Services by the host names of their tasks, including services that do not exist yet. */
  #hosts: ReadonlyMap<string, string> = new Map();
  /** The load balancer that clients use, once templates with a listener are deployed. */
  balancer: Balancer | undefined;
  #isOpen = true;
  /** Error that stopped the scheduler. */
  #problem: Error | undefined;
  readonly #looking: Promise<void>;

  constructor({ machine, timeScale = 0.2, patienceScale = 1 }: ClusterOptions) {
    this.#machine = machine;
    this.#scales = { timeScale, patienceScale };
    this.#looking = this.#look();
  }

  /**
   * Creates, changes and removes services until they match the templates, stack by stack.
   * @throws DeploymentFailed if a service does not become steady; its stack is then as it was before
   */
  async deploy(templates: Templates, values = new TemplateValues(templates)): Promise<void> {
    const plans = readServices(templates, values);
    if (plans.some(({ targets }) => targets.length > 0)) {
      this.balancer ??= await Balancer.open(templates, values, this.#ports, this.#scales);
    }
    this.#hosts = new Map(plans.flatMap(({ id, hostNames }) => hostNames.map((host) => [host, id])));
    const before = new Map([...this.#services].map(([id, { plan }]) => [id, plan]));
    for (const stack of Object.keys(templates)) {
      const isOf = ({ id }: ServicePlan): boolean => id.startsWith(`${stack}/`);
      const own = plans.filter(isOf);
      try {
        await this.#bring(own);
      } catch (error) {
        this.events.push(`${stack} is taken back`);
        await this.#bring([...before.values()].filter(isOf));
        await this.#removeOthers(stack, [...before.values()]);
        throw error;
      }
      await this.#removeOthers(stack, own);
    }
  }

  /** Removes all services. A service goes before the services that it depends on. */
  async destroy(): Promise<void> {
    for (const service of [...this.#services.values()].reverse()) await this.#remove(service.plan.id);
  }

  service(id: string): RunningService {
    const found = this.#services.get(id);
    if (found === undefined)
      throw new Error(`there is no service ${id}, only ${[...this.#services.keys()].join(', ')}`);
    return found;
  }

  /** All services, in order of creation. */
  get services(): readonly RunningService[] {
    return [...this.#services.values()];
  }

  /** Returns the service whose tasks have that container. */
  serviceOf(container: string): RunningService {
    const found = this.services.find(({ plan }) => plan.task.containers.some(({ name }) => name === container));
    if (found === undefined) throw new Error(`no service has a container ${container}`);
    return found;
  }

  /** Returns the port of this machine that stands for a port of a host of the deployment. */
  portOf(host: string, port: number): Promise<number> {
    const service = this.#hosts.get(host);
    if (service === undefined) throw new Error(`no service is called ${host}`);
    return this.#ports.of(slotOf(service), port);
  }

  /** Silences a zone with all its tasks: connections to them stay open, but no task answers. */
  loseZone(zone: string): void {
    this.#lostZones.add(zone);
    this.events.push(`${zone} is lost`);
    for (const task of this.#tasksIn(zone)) task.lose();
  }

  /**
   * Lets ECS notice that a zone is lost. Its tasks end, and replacements start in other zones if the service allows
   * that.
   */
  async giveUpZone(zone: string): Promise<void> {
    await Promise.all(this.#tasksIn(zone).map((task) => task.stop('its zone is lost')));
  }

  returnZone(zone: string): void {
    this.#lostZones.delete(zone);
    this.events.push(`${zone} is back`);
  }

  /**
   * Resolves when every service is steady.
   * @throws DeploymentFailed if a service cannot become steady
   */
  async untilSteady(): Promise<void> {
    await Promise.all(this.services.map((service) => this.#untilSteady(service)));
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    await this.#looking;
    await Promise.all(this.services.map((service) => service.end()));
    await this.balancer?.close();
  }

  /** Returns the output of every running task. */
  output(): string {
    return this.services
      .flatMap(({ plan, tasks }) => tasks.map((task) => `=== ${plan.id} in ${task.place.zone}\n${task.output()}`))
      .join('\n');
  }

  #tasksIn(zone: string): readonly RunningTask[] {
    return this.services.flatMap(({ tasks }) => tasks).filter(({ place }) => place.zone === zone);
  }

  async #look(): Promise<void> {
    while (this.#isOpen) {
      try {
        for (const service of this.services) service.look();
      } catch (error) {
        this.#problem = error as Error; // the callers that wait throw it
      }
      await sleep(LOOK_MS);
    }
  }

  /**
   * Brings each service to its plan as soon as the services that it depends on are steady. Skips services that already
   * match.
   */
  async #bring(plans: readonly ServicePlan[]): Promise<void> {
    const brought = new Map<string, Promise<void>>();
    const isGivenUp = new AbortController();
    const bring = (plan: ServicePlan): Promise<void> => {
      const known = brought.get(plan.id) ?? this.#bringOne(plan, plan.after.map(find).map(bring), isGivenUp);
      brought.set(plan.id, known);
      return known;
    };
    const find = (id: string): ServicePlan => {
      const found = plans.find((plan) => plan.id === id);
      if (found === undefined) throw new Error(`no service ${id} in its stack`);
      return found;
    };
    const outcomes = await Promise.allSettled(plans.map(bring));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed !== undefined) throw (isGivenUp.signal.reason ?? failed.reason) as Error;
  }

  async #bringOne(plan: ServicePlan, before: readonly Promise<void>[], isGivenUp: AbortController): Promise<void> {
    await Promise.all(before);
    isGivenUp.signal.throwIfAborted();
    const known = this.#services.get(plan.id);
    if (known === undefined) this.#make(plan);
    else if (JSON.stringify(known.plan) !== JSON.stringify(plan)) known.change(plan);
    try {
      await this.#untilSteady(this.service(plan.id), isGivenUp.signal);
    } catch (error) {
      isGivenUp.abort(error);
      throw error;
    }
  }

  #make(plan: ServicePlan): void {
    const service = new RunningService(plan, {
      machine: this.#machine,
      ports: this.#ports,
      scales: this.#scales,
      balancer: this.balancer,
      machineOf: (host) => {
        const id = this.#hosts.get(host);
        return id === undefined ? undefined : slotOf(id);
      },
      isThere: (zone) => !this.#lostZones.has(zone),
      tell: (event) => this.events.push(event),
    });
    this.#services.set(plan.id, service);
  }

  async #untilSteady(service: RunningService, isGivenUp?: AbortSignal): Promise<void> {
    const look = () => service.isSteady || service.failure || isGivenUp?.aborted || this.#problem !== undefined;
    const what = `tasks of ${service.plan.id}`;
    const seen = await waitUntil(look, { what, timeoutMs: STEADY_MS_MAX, pollMs: LOOK_MS }).catch((error: Error) => {
      throw new DeploymentFailed(`${error.message}\n${this.events.join('\n')}\n${this.output()}`);
    });
    if (this.#problem !== undefined) throw this.#problem;
    if (typeof seen === 'string') throw new DeploymentFailed(seen);
    isGivenUp?.throwIfAborted(); // another service of its stack has failed
  }

  /** Removes the services that the templates of a stack no longer contain, as CloudFormation does last. */
  async #removeOthers(stack: string, plans: readonly ServicePlan[]): Promise<void> {
    const ids = [...this.#services.keys()].filter((id) => id.startsWith(`${stack}/`));
    for (const id of ids.reverse()) if (!plans.some((plan) => plan.id === id)) await this.#remove(id);
  }

  async #remove(id: string): Promise<void> {
    await this.service(id).remove();
    this.#services.delete(id);
  }
}
