import type { EndpointRecord } from '../../discovery/index.ts';
import type { CacheClearer, RequestCanceller, RoutingExplainer } from '../../pipeline/index.ts';
import type { ResponseStore } from '../../responses/index.ts';
import type { ByteBudget, InferenceDeps } from '../inference/deps.ts';
import type { HttpSettings } from './settings.ts';

/** What the HTTP app works with. */
export interface HttpAppDeps extends InferenceDeps {
  readonly settings: HttpSettings;
  /** Room for the bodies that are being read, of all requests of the process. */
  readonly bodies: ByteBudget;
  /** Where responses are kept; undefined = nowhere. */
  readonly responseStore: ResponseStore | undefined;
  /** What `/health` lists, from memory: the same list until one comes or goes. */
  readonly instances: () => readonly EndpointRecord[];
  /** Brokers that this process needs and cannot reach, each with the reason. @default none */
  readonly absences?: (() => readonly string[]) | undefined;
  /** Empties the workers' caches; absent = nobody can be asked. */
  readonly caches?: Pick<CacheClearer, 'clear'> | undefined;
  /** Ends requests of other edges; absent = only those of this process can be ended. */
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  /** Says why requests go where they go; absent in modes that know nothing of caches. */
  readonly explainer?: Pick<RoutingExplainer, 'explained' | 'explain'> | undefined;
}
