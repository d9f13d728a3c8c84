import type { S3Client } from '@aws-sdk/client-s3';
import { ConfigError } from '../../config/index.ts';
import { quietSdkNotice } from '../../discovery/index.ts';
import { loadCode } from '../../errors/index.ts';

/** Place of buckets. Credentials come from the standard chain of the AWS SDK. */
export interface BucketPlace {
  /** Server other than AWS's (`AWS_ENDPOINT`), asked with the bucket's name in the path. @default AWS's, by region */
  readonly endpoint?: string | undefined;
  /** Region of AWS. A bucket in another region is found anyway. @default 'us-east-1' */
  readonly region?: string | undefined;
}

/** Settings of buckets. */
interface BucketSettings {
  readonly awsEndpoint?: string | undefined;
  readonly awsAllowHttp?: boolean | undefined;
  readonly awsRegion?: string | undefined;
}

/** Returns the place of buckets by the settings. @throws ConfigError for plain HTTP that is not permitted */
export function bucketPlace({ awsEndpoint: endpoint, awsAllowHttp, awsRegion: region }: BucketSettings): BucketPlace {
  if (endpoint?.startsWith('http:') && awsAllowHttp !== true) {
    throw new ConfigError(['AWS_ENDPOINT is plain HTTP: set AWS_ALLOW_HTTP=true to permit that']);
  }
  return { endpoint, region };
}

export interface S3 {
  readonly sdk: typeof import('./s3-parts.ts');
  readonly client: S3Client;
}

/** Loads the SDK, which is too large to load without need, and makes a client; sends no request yet. */
export async function openS3({ endpoint, region }: BucketPlace): Promise<S3> {
  quietSdkNotice();
  const sdk = await loadCode('S3', () => import('./s3-parts.ts'));
  const client = new sdk.S3Client({
    region: region ?? 'us-east-1',
    followRegionRedirects: true,
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
  });
  return { sdk, client };
}
