import example from '../../../infra/examples/ec2.config.ts';
import type { StatorConfig } from '../../../infra/settings/index.ts';

type Fleet = Extract<NonNullable<StatorConfig['fleets']>[string], { kind: 'ec2' }>;

export const CHAT = example.fleets?.chat as Fleet;
/** The example with one way to get machines: the rights on the groups of others are of the same statement. */
export const ONE_OPTION: StatorConfig = {
  ...example,
  models: { [CHAT.model]: { wanted: false } },
  fleets: { chat: { ...CHAT, options: CHAT.options.slice(0, 1), replicas: { max: 8 } } },
};
