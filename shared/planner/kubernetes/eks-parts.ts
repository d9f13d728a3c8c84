/** Exports only the parts of the SDK that this product uses. */
export { AutoScalingClient } from '@aws-sdk/client-auto-scaling';
export { SignatureV4 } from '@smithy/signature-v4';
