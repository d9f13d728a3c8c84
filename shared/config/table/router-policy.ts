import { choice, file, text } from '../builders.ts';
import { ROUTERS } from '../processes.ts';

/** Rows of "KV router scoring", one part of them. */
export const routerPolicyRows = {
  routerPolicyConfig: file({
    flags: ['--router-policy-config'],
    env: ['DYN_ROUTER_POLICY_CONFIG'],
    allowed: 'an existing YAML file',
    usedBy: ROUTERS,
    source: '1.6.1',
    built: true,
    about: 'Policy classes and worker selection; overrides flags.',
  }),
  routerTrackingHash: choice({
    flags: ['--router-tracking-hash'],
    env: ['DYN_ROUTER_TRACKING_HASH'],
    values: ['public-xxh3-v1', 'keyed-xxh3-v1'],
    default: 'public-xxh3-v1',
    usedBy: ROUTERS,
    source: '1.6.1',
    built: true,
    about: 'Hash of active-sequence identities.',
  }),
  routerTrackingKeyFile: file({
    flags: ['--router-tracking-key-file'],
    env: ['DYN_ROUTER_TRACKING_KEY_FILE'],
    allowed: 'a file of exactly 32 bytes',
    sizeBytes: 32,
    usedBy: ROUTERS,
    source: '1.6.1',
    built: true,
    about: 'Key of the keyed hash.',
  }),
  routerTrackingKeyId: text({
    flags: ['--router-tracking-key-id'],
    env: ['DYN_ROUTER_TRACKING_KEY_ID'],
    usedBy: ROUTERS,
    source: '1.6.1',
    built: true,
    about: 'Epoch name of that key.',
  }),
};
