import type { Clock } from '../../../shared/clock/index.ts';
import type {
  Connector,
  ConnectorMemory,
  Observed,
  Plan,
  PlanContext,
} from '../../../shared/planner/live/connector.ts';
import type { Victim } from '../../../shared/planner/store/types.ts';

const NEVER = new AbortController().signal;

/** Rounds of a planner with one decision, which remember what the planner's store would. */
export class Rounds {
  readonly #connector: Connector;
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #context: Partial<PlanContext>;
  #memory: ConnectorMemory = {};
  #victims: readonly Victim[] = [];
  #id = 0;

  constructor(
    { connector, clock }: { readonly connector: Connector; readonly clock: Pick<Clock, 'wallMs'> },
    context: Partial<PlanContext> = {},
  ) {
    this.#connector = connector;
    this.#clock = clock;
    this.#context = context;
  }

  observe(): Promise<Observed> {
    return this.#connector.observe(NEVER);
  }

  plan(observed: Observed, decode: number): Plan {
    const context = { nowMs: this.#clock.wallMs(), victims: this.#victims, tickSeconds: 5, ...this.#context };
    const decision = { decisionId: ++this.#id, targets: { decode } };
    const plan = this.#connector.plan(decision, observed, this.#memory, context);
    this.#memory = plan.memory;
    this.#victims = [...this.#victims, ...plan.victims];
    return plan;
  }

  async round(decode: number) {
    const plan = this.plan(await this.observe(), decode);
    const applied = plan.steps.length === 0 ? 'accepted' : await this.#connector.apply(plan.steps, NEVER);
    return { plan, applied };
  }
}
