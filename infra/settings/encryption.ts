import * as z from 'zod';

/** Keys of the encryption. */
export const Encryption = z
  .strictObject({
    /**
     * Key of KMS in this region and account for tables, bucket and secrets. Its own policy must let roles of the
     * account be given rights on it, as the policy that KMS makes by itself does. @default keys that AWS keeps for the
     * account, which cost nothing
     */
    keyArn: z
      .string()
      .regex(
        /^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/,
        'must be the ARN of a key, as arn:aws:kms:REGION:ACCOUNT:key/ID',
      )
      .optional(),
  })
  .prefault({});
