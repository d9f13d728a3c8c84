import { START_FACTOR } from '../../../shared/config/index.ts';
import { HEARTBEAT_SECS } from './host-environment.ts';
import { INSTALL_AGENT, INSTALL_LOG_AGENT, type Registry, renderPull } from './install.ts';

/** Everything that the first start of a machine needs to know. */
export interface MachineStart {
  /** Variables of the agent and its workers, among them those of `hostEnvironment`. A value has no line break. */
  readonly environment: Readonly<Record<string, string>>;
  /** Registry of ECR that the machine logs in to. @default none: the image is public */
  readonly ecr?: Registry | undefined;
  readonly region: string;
  /** Log group of the agents. */
  readonly logGroup: string;
  /** Time that the image may take to arrive, in seconds. */
  readonly startSecs: number;
  /** Longest time that running answers get when the machine is stopped. */
  readonly drainSecs: number;
}

/** Time that containers get to end after the longest drain. */
const STOP_MARGIN_SECS = 60;

/**
 * Returns the program that a machine runs once, as root, when it starts for the first time. It fetches the image of the
 * workers and takes the agent out of it, unless the machine's own image has both, and starts the agent as a service.
 * From then on systemd starts the agent whenever the machine starts. Heartbeats keep the launch hook open while the
 * image arrives, which may take longer than the time-out of the hook. The program has no secrets: everyone who may
 * describe a machine can read it.
 */
export function renderUserData(start: MachineStart): string {
  const { region, ecr, startSecs } = start;
  return `#!/bin/bash
set -euo pipefail
install -d -m 0755 /etc/stator
cat >/etc/stator/host.env <<'END'
${renderEnvironment({ AWS_REGION: region, ...start.environment })}
END
. /etc/stator/host.env
export AWS_REGION
image=$STATOR_HOST_WORKER_IMAGE
metadata=http://169.254.169.254/latest
token=$(curl -sSf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' $metadata/api/token)
id=$(curl -sSf -H "X-aws-ec2-metadata-token: $token" $metadata/meta-data/instance-id)
beat() {
  trap 'kill $!; exit' TERM
  for _ in $(seq ${Math.ceil((START_FACTOR * startSecs) / HEARTBEAT_SECS)}); do
    sleep ${HEARTBEAT_SECS} & wait $!
    aws autoscaling record-lifecycle-action-heartbeat --instance-id "$id" \\
      --auto-scaling-group-name "$STATOR_HOST_GROUP" --lifecycle-hook-name "$STATOR_HOST_LAUNCH_HOOK" || true
  done
}
beat >/dev/null 2>&1 &
beating=$!
trap 'kill $beating' EXIT
systemctl start docker
${renderPull(ecr)}
mkdir -p /var/lib/stator /var/log/stator
${INSTALL_AGENT}
cat >/etc/systemd/system/stator-host.service <<'END'
${renderUnit(start)}
END
systemctl daemon-reload
systemctl enable --now stator-host.service
cat >/etc/logrotate.d/stator <<'END'
/var/log/stator/*.log { size 100M
rotate 2
copytruncate
missingok }
END
cat >/etc/stator/logs.json <<'END'
${renderLogs(start)}
END
${INSTALL_LOG_AGENT} &&
  $agent -a fetch-config -m ec2 -s -c file:/etc/stator/logs.json || echo 'stator: no logs at CloudWatch' >&2
`;
}

/** Returns which files the agent of CloudWatch sends ("CloudWatch agent configuration file"). */
function renderLogs({ logGroup }: MachineStart): string {
  const file = { file_path: '/var/log/stator/*.log', log_group_name: logGroup, log_stream_name: '{instance_id}' };
  return JSON.stringify({ logs: { logs_collected: { files: { collect_list: [file] } } } });
}

function renderUnit({ drainSecs }: MachineStart): string {
  return `[Unit]
Description=Agent of Stator
Wants=network-online.target
After=network-online.target docker.service
[Service]
EnvironmentFile=/etc/stator/host.env
ExecStart=/opt/stator/node /opt/stator/app/bin/stator.js host
Restart=always
RestartSec=5
KillMode=process
TimeoutStopSec=${drainSecs + STOP_MARGIN_SECS}
StandardOutput=append:/var/log/stator/host.log
[Install]
WantedBy=multi-user.target`;
}

/** Characters with a meaning in double quotes. What CDK puts in the place of a value that is not known yet has none. */
const ESCAPED = /["\\`]|\$(?!\{Token\[)/g;

/** Returns lines as systemd reads them ("systemd.exec", `EnvironmentFile=`): in double quotes, with escapes. */
function renderEnvironment(environment: MachineStart['environment']): string {
  return Object.entries(environment)
    .map(([name, text]) => {
      if (/[\r\n]/.test(text)) throw new Error(`${name}: a variable of a machine has no line break`);
      return `${name}="${text.replace(ESCAPED, '\\$&')}"`;
    })
    .join('\n');
}
