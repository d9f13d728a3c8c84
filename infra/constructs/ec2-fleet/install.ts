import type { EcrImage } from '../ecr-image.ts';

/** Registry of ECR that a machine logs in to. */
export type Registry = Pick<EcrImage, 'registry' | 'region'>;

/** Returns the lines of bash that fetch `$image` unless the machine has it. They try four times in 75 seconds. */
export function renderPull(ecr: Registry | undefined): string {
  const login = ecr === undefined ? '' : `${loginTo(ecr)} && `;
  return `for pause in 5 10 20 40; do
  docker image inspect "$image" >/dev/null 2>&1 && break
  { ${login}docker pull -q "$image"; } || sleep $pause
done`;
}

/** Lines of bash that take the agent out of `$image`, unless the machine has that one, as a file beside it says. */
export const INSTALL_AGENT = `mkdir -p /opt/stator
cd /opt/stator
if ! grep -qsxF "$image" image; then
  rm -rf ./*
  c=$(docker create "$image")
  docker cp "$c:/app" app
  docker cp "$c:/usr/local/bin/node" node
  docker rm "$c"
  echo "$image" >image
fi`;

/** Lines of bash that install the agent of CloudWatch, unless the machine has it. `$agent` starts it. */
export const INSTALL_LOG_AGENT = `agent=/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl
{ test -x $agent || dnf -q -y install amazon-cloudwatch-agent; }`;

/** Returns the command that logs in to a registry, which may take only passwords of its own region. */
function loginTo({ registry, region }: Registry): string {
  return `aws ecr get-login-password --region ${region} | docker login --username AWS --password-stdin ${quote(registry)}`;
}

/** Quotes for a shell. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
