import { loadCode } from '../../errors/index.ts';

/** The parts of the AWS SDK's module for DynamoDB that this product uses. */
export type DynamoDbSdk = typeof import('./sdk-parts.ts');

/** The SDK's own switch for its notice that a later version will need a newer Node. */
const NOTICE_SWITCH = 'AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED';

/**
 * Silences a notice about old Node versions that the SDK prints with its first client. Must be called before any part
 * of the SDK is loaded. The notice tells operators nothing, because the SDK is pinned and bundled. To read it, set the
 * switch to `false`.
 */
export function quietSdkNotice(): void {
  process.env[NOTICE_SWITCH] ||= 'true';
}

/**
 * Loads the SDK, which processes without a table do not load because of its size. Every import of it goes through here.
 */
export function loadSdk(): Promise<DynamoDbSdk> {
  quietSdkNotice();
  return loadCode('DynamoDB', () => import('./sdk-parts.ts'));
}
