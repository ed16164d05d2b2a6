#!/bin/busybox sh
# The first process of a Linux guest of the switch. It runs each line that comes at the second serial port, and ends the answer
# with a line "--status N".
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
exec </dev/console >/dev/console 2>&1
while read -r module; do insmod "/modules/$module"; done </modules/order
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
ip link set lo up
# udhcpc calls this script.
printf '#!/bin/sh\n[ "$1" != bound ] || ip addr add "$ip/$mask" dev "$interface"\n' >/bin/dhcp
chmod +x /bin/dhcp
exec 3<>/dev/ttyS1
stty raw -echo clocal <&3
echo "guest is ready"
while :; do
  IFS= read -r line <&3 || continue
  sh -c "$line" >/tmp/answer 2>&1 </dev/null
  status=$?
  cat /tmp/answer >&3
  echo "--status $status" >&3
done
