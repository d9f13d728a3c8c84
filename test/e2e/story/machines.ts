import type { FakeInstance, InstanceCallbacks } from '../../support/aws/auto-scaling/types.ts';
import { HostMachine, type MachineOptions } from '../host-machine.ts';

const START_MS_MAX = 40_000;

/** Machines of all instances that Auto Scaling launches: each boots with a real agent, and ends with its instance. */
export class Machines implements Required<Pick<InstanceCallbacks, 'onLaunch' | 'onState' | 'onTerminate'>> {
  readonly #options: () => MachineOptions;
  readonly #booted = new Map<string, Promise<HostMachine>>();
  readonly #ended: Promise<void>[] = [];
  /** Number of machines so far. */
  booted = 0;
  /** Whether the agent of the next machine is killed while its worker starts. systemd starts another one. */
  crashesNext = false;

  /** @param options read at each boot, when the rest of the bed is there */
  constructor(options: () => MachineOptions) {
    this.#options = options;
  }

  readonly onLaunch = (instance: FakeInstance): void => {
    this.booted++;
    const isCrashing = this.crashesNext;
    this.crashesNext = false;
    const boot = async (): Promise<HostMachine> => {
      const machine = await HostMachine.boot(instance, this.#options());
      const agent = machine.start();
      if (!isCrashing) return machine;
      await agent.waitForOutput(/worker started/, START_MS_MAX);
      await agent.kill();
      machine.start();
      return machine;
    };
    this.#booted.set(instance.id, boot());
  };

  readonly onState = ({ id }: FakeInstance): void => {
    void this.#booted.get(id)?.then((machine) => machine.follow());
  };

  readonly onTerminate = ({ id }: FakeInstance): void => {
    const machine = this.#booted.get(id);
    this.#booted.delete(id);
    if (machine !== undefined) this.#ended.push(machine.then((each) => each.stop()));
  };

  async of(id: string): Promise<HostMachine> {
    const machine = await this.#booted.get(id);
    if (machine === undefined) throw new Error(`instance ${id} has no machine`);
    return machine;
  }

  async stop(): Promise<void> {
    const machines = await Promise.all(this.#booted.values());
    await Promise.all([...machines.map((machine) => machine.stop()), ...this.#ended]);
  }
}
