import { RunningTask, type TaskPlace } from './running-task.ts';
import type { ServicePlan } from './services.ts';

/** Parts of the cluster that a service uses. */
export interface ServiceSurroundings extends Omit<TaskPlace, 'service' | 'slot' | 'zone'> {
  /** Whether a zone accepts new tasks now. */
  readonly isThere: (zone: string) => boolean;
  readonly tell: (event: string) => void;
}

/** Failed tasks of one deployment after which a circuit breaker stops it. */
const FAILURES_MIN = 3;

/**
 * A service, which keeps its tasks as its plan says. When the plan changes, it replaces them as the scheduler of ECS
 * does.
 */
export class RunningService {
  #plan: ServicePlan;
  readonly #surroundings: ServiceSurroundings;
  #tasks: RunningTask[] = [];
  #failures = 0;
  #isDeploying = true;
  #isRemoved = false;
  /** Reason and output of the last task that failed in this deployment. */
  #lastFailure = '';
  #started = 0;

  constructor(plan: ServicePlan, surroundings: ServiceSurroundings) {
    this.#plan = plan;
    this.#surroundings = surroundings;
    surroundings.tell(`${plan.id} is made`);
  }

  get plan(): ServicePlan {
    return this.#plan;
  }

  /** Running tasks, oldest first. */
  get tasks(): readonly RunningTask[] {
    return this.#tasks;
  }

  get healthyTasks(): readonly RunningTask[] {
    return this.#tasks.filter(({ status }) => status === 'healthy');
  }

  /** Whether all tasks follow the newest plan and are healthy, and their number is the desired one. */
  get isSteady(): boolean {
    return !this.#isDeploying && this.#isComplete;
  }

  get #isComplete(): boolean {
    const { desiredCount } = this.#plan;
    const current = this.healthyTasks.filter((task) => this.#isCurrent(task));
    return current.length === desiredCount && this.#tasks.every(({ status }) => status === 'healthy');
  }

  /** Reason why the deployment cannot finish, or undefined if it still can. */
  get failure(): string | undefined {
    const [healthyMin, tasksMax] = [this.#healthyMin, this.#tasksMax];
    const isFull = healthyMin >= tasksMax && this.healthyTasks.length >= healthyMin;
    if (isFull && !this.#tasks.some((task) => this.#isCurrent(task))) {
      return `${this.#plan.id}: no task can be replaced: ${healthyMin} must be healthy and there may be ${tasksMax}`;
    }
    const failuresMax = Math.max(FAILURES_MIN, Math.ceil(this.#plan.desiredCount / 2));
    if (this.#failures < failuresMax) return undefined;
    const waits = this.#plan.hasCircuitBreaker
      ? ''
      : '; without a circuit breaker CloudFormation waits three hours for it';
    return `${this.#plan.id}: ${this.#failures} tasks failed${waits}; the last one: ${this.#lastFailure}`;
  }

  /** Makes `plan` the plan of its tasks. */
  change(plan: ServicePlan): void {
    this.#surroundings.tell(`${plan.id} is changed`);
    this.#plan = plan;
    this.#failures = 0;
    this.#isDeploying = true;
  }

  /** Ends all tasks. Resolves when they have ended. */
  async remove(): Promise<void> {
    this.#isRemoved = true;
    this.#surroundings.tell(`${this.#plan.id} is removed`);
    await Promise.all(this.#tasks.map((task) => task.stop('its service is removed')));
    this.#tasks = [];
  }

  async end(): Promise<void> {
    this.#isRemoved = true;
    await Promise.all(this.#tasks.map((task) => task.end()));
  }

  /** Runs one round of the scheduler. */
  look(): void {
    if (this.#isRemoved) return;
    for (const task of this.#tasks) {
      task.look();
      if (task.status === 'unhealthy') this.#fail(task);
    }
    this.#tasks = this.#tasks.filter(({ status }) => status !== 'stopped');
    if (this.failure !== undefined) return;
    this.#startMissing();
    this.#stopReplaced();
    if (this.#isDeploying && this.#isComplete) {
      this.#isDeploying = false;
      this.#surroundings.tell(`${this.#plan.id} is steady`);
    }
  }

  /** Fewest healthy tasks at any time of a release. */
  get #healthyMin(): number {
    return Math.ceil((this.#plan.desiredCount * this.#plan.minimumHealthyPercent) / 100);
  }

  /** Most tasks at any time. */
  get #tasksMax(): number {
    return Math.floor((this.#plan.desiredCount * this.#plan.maximumPercent) / 100);
  }

  #isCurrent({ plan }: RunningTask): boolean {
    return JSON.stringify(plan) === JSON.stringify(this.#plan.task);
  }

  #fail(task: RunningTask): void {
    this.#surroundings.tell(`${this.#plan.id}: ${task.reason}`);
    if (this.#isDeploying && this.#isCurrent(task)) {
      this.#failures++;
      this.#lastFailure = `${task.reason}\n${task.output().slice(-2000)}`;
    }
    this.#end(task, task.reason);
  }

  #startMissing(): void {
    const { desiredCount } = this.#plan;
    const tasksMax = this.#tasksMax;
    const isWanted = (task: RunningTask): boolean => this.#isCurrent(task) && task.status !== 'stopping';
    while (this.#tasks.filter(isWanted).length < desiredCount && this.#tasks.length < tasksMax) {
      const zone = this.#emptiestZone();
      if (zone === undefined) return;
      const slot = this.#freeSlot();
      this.#surroundings.tell(`${this.#plan.id} starts a task in ${zone}`);
      this.#tasks.push(RunningTask.start(this.#plan.task, { ...this.#surroundings, service: this.#plan, slot, zone }));
      this.#started++;
    }
  }

  /** Stops tasks of an older plan as soon as enough tasks are healthy without them. */
  #stopReplaced(): void {
    const { desiredCount } = this.#plan;
    const healthyMin = this.#healthyMin;
    const isLeft = (task: RunningTask): boolean => task.status !== 'stopping' && !this.#isCurrent(task);
    for (const task of this.#tasks.filter(isLeft)) {
      const healthyOthers = this.healthyTasks.filter((each) => each !== task).length;
      if (healthyOthers >= healthyMin) this.#end(task, 'another task replaces it');
    }
    const current = this.#tasks.filter((task) => task.status !== 'stopping' && this.#isCurrent(task));
    for (const task of current.slice(desiredCount)) this.#end(task, 'fewer are wanted');
  }

  #end(task: RunningTask, why: string): void {
    task.stop(why).catch((error: Error) => this.#surroundings.tell(`${this.#plan.id}: ${error.message}`));
  }

  #emptiestZone(): string | undefined {
    const count = (zone: string): number => this.#tasks.filter(({ place }) => place.zone === zone).length;
    return this.#plan.zones.filter(this.#surroundings.isThere).sort((one, other) => count(one) - count(other))[0];
  }

  /** Returns the first slot of the service without a task, so that an address found by name stays valid. */
  #freeSlot(): string {
    const taken = new Set(this.#tasks.map(({ place }) => place.slot));
    for (let at = 0; ; at++) {
      const slot = slotOf(this.#plan.id, at);
      if (!taken.has(slot)) return slot;
    }
  }

  /** Number of tasks started so far. */
  get started(): number {
    return this.#started;
  }
}

/** Returns the key that stands for the address of a task. */
export function slotOf(service: string, at = 0): string {
  return `${service}#${at}`;
}
