import type { RouterSettings } from '../config/index.ts';
import type { PolicyConfig, PrefillDurationModel } from '../router/index.ts';
import type { TrackingHash } from '../router/tracking/index.ts';
import { readPolicies } from './policy-config.ts';
import { openPrefillModel } from './prefill-model.ts';
import { openTracking } from './tracking.ts';

/** What the files that a router's settings name say. */
export interface RouterFiles {
  /** Queue classes, and settings over the flags. */
  readonly policies: PolicyConfig | undefined;
  /** Predicts prefills. */
  readonly prefillDuration: PrefillDurationModel | undefined;
  /** Names the blocks of running requests. */
  readonly tracking: TrackingHash | undefined;
}

/** Reads them. @throws KvRouterConfigError for one that cannot be used */
export async function openRouterFiles(settings: RouterSettings): Promise<RouterFiles> {
  const policies = await readPolicies(settings.routerPolicyConfig);
  const { prefillLoadModel = settings.routerPrefillLoadModel } = policies?.settings ?? {};
  return {
    policies,
    prefillDuration: prefillLoadModel === 'aic' ? await openPrefillModel(settings) : undefined,
    tracking: await openTracking(settings),
  };
}
