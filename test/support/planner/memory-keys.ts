import type { VirtualKeys } from '../../../shared/planner/live/virtual-connector.ts';

/** Keys of the virtual connector in memory, as an environment sees them. */
export class MemoryKeys implements VirtualKeys {
  values: Readonly<Record<string, string>> = {};
  writes = 0;

  async read(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    signal.throwIfAborted();
    return this.values;
  }

  async write(values: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.writes++;
    this.values = { ...this.values, ...values };
  }

  /** Acknowledges, as the environment, that it has carried out the last decision. */
  acknowledge(): void {
    const { decision_id: id } = this.values;
    if (id !== undefined) this.values = { ...this.values, scaled_decision_id: id };
  }
}
