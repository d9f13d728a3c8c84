import type { TimeAndChance } from '../clock/index.ts';
import type { PlannerOutbox } from '../planes/index.ts';
import { PLANNER_EVENT_VERSION, type StartPhase } from '../protocol/index.ts';
import type { InstanceIdentity } from './instance-facts.ts';
import type { Interruption } from './law/types.ts';
import type { Served } from './worker-command.ts';

/** Tells the planner what happens to an instance. */
export class PlannerReports {
  readonly #outbox: Pick<PlannerOutbox, 'put'>;
  readonly #identity: InstanceIdentity;
  readonly #served: Served & { readonly model: string };
  readonly #clock: TimeAndChance['clock'];
  readonly #epoch: string;
  #sequence = 0;

  constructor(
    outbox: Pick<PlannerOutbox, 'put'>,
    { identity, served }: { identity: InstanceIdentity; served: Served & { readonly model: string } },
    { clock, random }: TimeAndChance,
  ) {
    this.#outbox = outbox;
    this.#identity = identity;
    this.#served = served;
    this.#clock = clock;
    this.#epoch = random.instanceId();
  }

  interrupted({ kind, deadlineAtMs }: Interruption): void {
    const deadline = deadlineAtMs === undefined ? {} : { deadline_at: deadlineAtMs };
    const type = 'capacity.interrupt';
    this.#outbox.put({ type, ...this.#common(), instance_id: this.#identity.instanceId, kind, ...deadline });
  }

  /** @param took seconds of each phase, once the machine serves */
  reached(phase: StartPhase | 'serving' | 'failed', took?: Partial<Readonly<Record<StartPhase, number>>>): void {
    const times = took === undefined ? {} : { took_s: { ...took } };
    const { instanceId: instance_id } = this.#identity;
    this.#outbox.put({ type: 'host.phase', ...this.#common(), instance_id, phase, ...times });
  }

  startFailed(): void {
    const { instanceId, instanceType, zone } = this.#identity;
    this.#outbox.put({
      type: 'capacity.failed',
      ...this.#common(),
      code: 'StartFailed',
      instance_types: [instanceType],
      zone,
      activity_id: instanceId,
    });
  }

  #common() {
    const { namespace, model, pool } = this.#served;
    return {
      v: PLANNER_EVENT_VERSION,
      namespace,
      model,
      component: pool,
      source: this.#identity.instanceId,
      epoch: this.#epoch,
      seq: this.#sequence++,
      at: this.#clock.wallMs(),
    } as const;
  }
}
