import { DomainName, EndpointType, type IRestApi, type RestApi, SecurityPolicy } from 'aws-cdk-lib/aws-apigateway';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { ARecord, HostedZone, RecordTarget } from 'aws-cdk-lib/aws-route53';
import { ApiGatewayDomain } from 'aws-cdk-lib/aws-route53-targets';
import { Construct } from 'constructs';

export interface PublicNameProps {
  readonly name: string;
  /** Certificate of ACM for it, in the region of the API. */
  readonly certificateArn: string;
  readonly api: RestApi;
  /** Hosted zone of Route 53 in which the name is made. @default none: point the name at `target` by hand */
  readonly hostedZone?: { readonly id: string; readonly name: string } | undefined;
}

/** A name of your own for the API, without the stage in its path. */
export class PublicName extends Construct {
  /** What the name stands for: a CNAME or alias goes there. */
  readonly target: string;

  constructor(scope: Construct, id: string, { name, certificateArn, api, hostedZone }: PublicNameProps) {
    super(scope, id);
    const domain = new DomainName(this, 'Domain', {
      domainName: name,
      certificate: Certificate.fromCertificateArn(this, 'Certificate', certificateArn),
      endpointType: EndpointType.REGIONAL,
      securityPolicy: SecurityPolicy.TLS_1_2,
      mapping: api as IRestApi, // its optional properties are `T | undefined`
    });
    this.target = domain.domainNameAliasDomainName;
    if (hostedZone === undefined) return;
    const zone = HostedZone.fromHostedZoneAttributes(this, 'Zone', {
      hostedZoneId: hostedZone.id,
      zoneName: hostedZone.name,
    });
    new ARecord(this, 'Record', {
      zone,
      recordName: `${name}.`,
      target: RecordTarget.fromAlias(new ApiGatewayDomain(domain)),
    });
  }
}
