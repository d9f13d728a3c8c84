import type { KeyStore } from '../../access/index.ts';
import type { OpenConsole } from '../../console/index.ts';
import type { EndpointRecord } from '../../discovery/index.ts';
import type { CacheClearer, RequestCanceller, RoutingExplainer } from '../../pipeline/index.ts';
import type { ResponseStore } from '../../responses/index.ts';
import type { ByteBudget, InferenceDeps } from '../inference/deps.ts';
import type { HttpSettings } from './settings.ts';

/** Dependencies of the HTTP app. */
export interface HttpAppDeps extends InferenceDeps {
  readonly settings: HttpSettings;
  /** Room for the bodies that all requests of the process are reading. */
  readonly bodies: ByteBudget;
  /** Store of responses; undefined = responses are not stored. */
  readonly responseStore: ResponseStore | undefined;
  /** Returns the instances that `/health` lists, from memory: the same list until an instance comes or goes. */
  readonly instances: () => readonly EndpointRecord[];
  /** Brokers that this process needs and cannot reach, each with the reason. @default none */
  readonly absences?: (() => readonly string[]) | undefined;
  /** Empties the workers' caches; absent = no worker can be asked. */
  readonly caches?: Pick<CacheClearer, 'clear'> | undefined;
  /** Ends requests of other edges; absent = only those of this process can be ended. */
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  /** Explains which workers requests go to; absent in modes that do not know the caches of workers. */
  readonly explainer?: Pick<RoutingExplainer, 'explained' | 'explain'> | undefined;
  /** Returns the store of API keys, opened by the first call; absent = this process has none. */
  readonly keyStore?: (() => Promise<KeyStore>) | undefined;
  /** The console; absent = this process has none. */
  readonly console?: OpenConsole | undefined;
}
