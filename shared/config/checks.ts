import { DEPENDENCIES } from './dependencies.ts';
import { tellIdle } from './needs.ts';
import { nameOf, type SettingName } from './table.ts';
import type { ConfigView, Findings } from './view.ts';

const TOGETHER = [
  ['tlsCertPath', 'tlsKeyPath'],
  ['tcpTlsCertPath', 'tcpTlsKeyPath'],
  ['tcpTlsClientCertPath', 'tcpTlsClientKeyPath'],
  ['natsTlsClientCertPath', 'natsTlsClientKeyPath'],
  ['natsAuthUsername', 'natsAuthPassword'],
  ['etcdAuthUsername', 'etcdAuthPassword'],
  ['etcdAuthClientCert', 'etcdAuthClientKey'],
  ['numPrefillWorkers', 'numDecodeWorkers'],
] as const satisfies readonly (readonly [SettingName, SettingName])[];

const EXCLUSIVE = [
  ['decodeFallback', 'enforceDisagg'],
  ['interactive', 'emf'],
  ['useRemoteIndexer', 'serveIndexer'],
  ['isPrefillWorker', 'isDecodeWorker'],
  ['embeddingWorker', 'enableMultimodal'],
  ['omni', 'embeddingWorker'],
  ['omni', 'useVllmTokenizer'],
  ['omni', 'headless'],
  ['embeddingFrontendTokenization', 'useVllmTokenizer'],
  ['multimodalEncodeWorker', 'multimodalWorker'],
  ['multimodalEncodeWorker', 'multimodalDecodeWorker'],
  ['multimodalWorker', 'multimodalDecodeWorker'],
] as const satisfies readonly (readonly [SettingName, SettingName])[];

/** Setting that must be given, or on, if the first one is. */
const NEEDS = [
  ['routerTrackOutputBlocks', 'routerTrackActiveBlocks'],
  ['routerPredictedTtlSecs', 'routerKvEvents'],
  ['routeToEncoder', 'enableMultimodal'],
  ['multimodalEncodeWorker', 'enableMultimodal'],
  ['multimodalWorker', 'enableMultimodal'],
  ['multimodalDecodeWorker', 'enableMultimodal'],
  ['zmqReplayPorts', 'zmqKvEventsPorts'],
  ['embeddingFrontendTokenization', 'embeddingWorker'],
  ['stageConfigsPath', 'omni'],
  ['hostLaunchHook', 'hostGroup'],
  ['hostTerminateHook', 'hostGroup'],
] as const satisfies readonly (readonly [SettingName, SettingName])[];

/** Settings of NATS. */
const OF_NATS = [
  'eventPlane',
  'natsRequestTimeoutSecs',
  'natsServer',
  'natsAuthUsername',
  'natsAuthPassword',
  'natsAuthToken',
  'natsAuthNkey',
  'natsAuthCredentialsFile',
  'natsTlsCaCertPath',
  'natsTlsInsecure',
  'natsTlsClientCertPath',
  'natsTlsClientKeyPath',
] as const satisfies readonly SettingName[];

/** A setting that has no effect beside the others: legal, but surely not intended. */
interface WithoutEffect {
  readonly setting: SettingName;
  readonly isIdle: (view: ConfigView) => boolean;
  readonly because: string;
}

const WITHOUT_EFFECT: readonly WithoutEffect[] = [
  {
    setting: 'sharedCacheMultiplier',
    isIdle: ({ values }) => (values.sharedCacheMultiplier ?? 0) > 0 && values.sharedCacheType === 'none',
    because: '--shared-cache-type none has no pool to ask',
  },
  {
    setting: 'aicBackendVersion',
    isIdle: ({ values }) => values.aicBackendVersion !== undefined,
    because: 'the built-in estimate has no tables of measurements',
  },
  {
    setting: 'watermark',
    isIdle: ({ given, values }) => given.has('watermark') && values.engineType === 'sglang',
    because: '--engine-type sglang keeps blocks free by rules of its own',
  },
  ...OF_NATS.map(
    (setting): WithoutEffect => ({
      setting,
      isIdle: ({ process, given }) => process === 'function' && given.has(setting),
      because: 'a function has no client of NATS and follows no events',
    }),
  ),
];

function isSet(value: unknown): boolean {
  return value !== undefined && value !== false;
}

/** Finds problems that concern more than one setting. */
export function findProblems(view: ConfigView, { problems, warnings }: Findings): void {
  const { given, values } = view;
  const givenName = (setting: SettingName): string => given.get(setting)?.name ?? nameOf(setting);
  for (const [one, other] of TOGETHER) {
    const [present, absent] = values[one] === undefined ? [other, one] : [one, other];
    if (values[present] !== undefined && values[absent] === undefined) {
      problems.push(`${givenName(present)} needs ${nameOf(absent)}`);
    }
  }
  for (const [one, other] of EXCLUSIVE) {
    if (values[one] === true && values[other] === true)
      problems.push(`${nameOf(one)} and ${nameOf(other)} exclude each other`);
  }
  for (const [one, other] of NEEDS) {
    if (isSet(values[one]) && !isSet(values[other])) problems.push(`${givenName(one)} needs ${nameOf(other)}`);
  }
  for (const { setting, holds, says } of DEPENDENCIES) {
    if (!holds(view)) problems.push(`${givenName(setting)} ${says}`);
  }
  for (const { setting, isIdle, because } of WITHOUT_EFFECT) {
    if (isIdle(view)) warnings.push(`${givenName(setting)} has no effect: ${because}`);
  }
  warnings.push(...tellIdle(view, givenName));
  const credit = values.routerKvOverlapScoreCredit ?? 0;
  if (credit > 1)
    warnings.push(
      `--router-kv-overlap-score-credit ${credit} is above 1.0; --router-prefill-load-scale weighs prefill`,
    );
}
