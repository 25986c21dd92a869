"""Commands whose results on the embedded API server must be those on kube-apiserver.

The commands of a story run one after the other, in a namespace of their own. A line that begins with `~` is
compared by exit code and first word alone: what it prints is the server's own (versions, tokens, the words of
an error, internal forms of Go), or lists kinds that the embedded one does not serve.
"""

STORIES: dict[str, str] = {
    "cluster": """
        version
        cluster-info
        ~ api-versions
        ~ api-resources
        api-resources --api-group=apps -o wide
        api-resources --api-group=autoscaling
        api-resources --api-group=batch -o wide
        ~ get --raw /version
        get --raw /healthz
        get --raw /readyz
        ~ get --raw /api
        get --raw /apis/apps
        get --raw /nowhere
        auth whoami
        auth whoami -o yaml
        auth can-i create pods
        auth can-i create pods --all-namespaces
        auth can-i get pods --subresource=log
        auth can-i get /healthz
        ~ auth can-i --list
        auth can-i create bananas
        get bananas
        get nodes
        get ns default kube-system
        get namespaces default -o yaml
        get all
        get pods,services
        describe ns default
        explain pod
        explain pod.spec.containers
        explain pod.spec --recursive
        explain deployment.spec.strategy --api-version=apps/v1
        explain events --api-version=events.k8s.io/v1
        explain cronjobs.spec.jobTemplate.spec
        explain crd.spec.versions
        explain pod.spec.nope
        explain bananas
    """,
    "creating": """
        create namespace extra
        create namespace extra
        create deployment web --image=registry.test/web:1 --replicas=2 --port=80
        create configmap settings --from-literal=a=1
        create secret generic keys --from-literal=password=hidden
        create secret docker-registry pull --docker-username=u --docker-password=p
        create job once --image=registry.test/job:1 -- run it
        create cronjob nightly --image=registry.test/job:1 '--schedule=0 3 * * *' -- run it
        create job manual --from=cronjob/nightly
        create role reader --verb=get,list --resource=pods
        create rolebinding readers --role=reader --user=jane
        create clusterrole story-viewer --verb=get,list --resource=pods,nodes
        create clusterrolebinding story-viewers --clusterrole=story-viewer --group=ops
        create serviceaccount robot
        ~ create token robot --duration=10m
        create token missing
        create token robot --duration=1m
        create quota limits --hard=cpu=4,pods=10
        create poddisruptionbudget web --selector=app=web --min-available=1
        create priorityclass story-important --value=1000 --description=x
        create ingress site --rule=example.com/*=web:80
        create service clusterip web --tcp=80:8080
        create service nodeport web2 --tcp=80:8080
        create service loadbalancer web3 --tcp=80:8080
        create service externalname out --external-name=example.com
        create -f pod.yaml
        create -f pod.yaml
        create -f pod.yaml --dry-run=client -o yaml
        create configmap dry --from-literal=a=1 --dry-run=server
        create configmap dry --from-literal=a=1 --dry-run=server -o yaml
        get configmap dry
        create deployment Bad_Name --image=registry.test/web:1
        create configmap settings --from-literal=a=1 --save-config
        run shell --image=registry.test/shell:1
        run other --image=registry.test/shell:1 --dry-run=client -o yaml
        run third --image=registry.test/shell:1 --dry-run=server -o yaml
        expose deployment web --port=80 --name=exposed
        autoscale deployment web --min=1 --max=5 --cpu-percent=50
        get deploy,cm,secret,job,cronjob,role,rolebinding,sa,quota,pdb,ingress,svc,pod,hpa
        get deploy,cm,secret,job,cronjob,role,rolebinding,sa,quota,pdb,ingress,svc,pod,hpa -o wide
        get deploy,cm,secret,job,cronjob,role,rolebinding,sa,quota,pdb,ingress,svc,pod,hpa -o name
        get priorityclass story-important
        get clusterrole story-viewer -o wide
        get clusterrolebinding story-viewers -o wide
        get deploy web -o yaml
        get cm settings -o yaml
        get secret keys -o yaml
        get job once -o yaml
        get cronjob nightly -o yaml
        get role reader -o yaml
        get rolebinding readers -o yaml
        get sa robot -o yaml
        get quota limits -o yaml
        get pdb web -o yaml
        get ingress site -o yaml
        get pod one -o yaml
        get svc web web2 web3 out -o yaml
        get hpa web -o yaml
        get hpa.v1.autoscaling web -o yaml
        describe deploy web
        describe cm settings
        describe secret keys
        describe job once
        describe cronjob nightly
        describe role reader
        describe rolebinding readers
        describe clusterrole story-viewer
        describe clusterrolebinding story-viewers
        describe sa robot
        describe quota limits
        describe pdb web
        describe ingress site
        describe svc web
        create -f endpoints.yaml
        get ep,endpointslices
        get ep,endpointslices -o yaml
        describe svc web
        describe endpointslice web-slice
        describe hpa web
        describe pod one
        describe ns story-creating
        describe priorityclass story-important
        describe all
        delete ns extra --wait=false
        delete clusterrole story-viewer
        delete clusterrolebinding,priorityclass story-viewers story-important
        delete priorityclass story-important
        delete deploy,svc,hpa --all
    """,
    "pods": """
        create -f node.yaml
        create -f pod.yaml
        get pod one
        get pod one -o wide
        get pod one -o json
        get pod one -o jsonpath={.spec.containers[*].name}
        get pod one -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image
        get pod one -o go-template={{.metadata.name}}
        get pods --show-labels
        get pods -L app
        get pods --selector app=one -o name
        get pods --selector app=none
        get pods --field-selector status.phase=Pending
        get pods --field-selector spec.banana=1
        get pods -A --field-selector metadata.namespace=story-pods
        get pods --sort-by=.metadata.name
        get pods --chunk-size=1
        get pods --subresource=status
        get pod one --subresource=status
        get pods --watch --request-timeout=2s
        get pod missing
        get pod missing --ignore-not-found
        describe pod one
        describe node node-1
        label pod one tier=web
        label pod one tier=web
        label pod one tier=db
        label pod one tier=db --overwrite
        label pod one tier-
        label pod one --list
        label pods --all x=y
        annotate pod one note=hello
        annotate pod one note-
        ~ annotate pod one bad/key/=x
        patch pod one -p '{"metadata":{"labels":{"a":"b"}}}'
        patch pod one --type=json -p '[{"op":"remove","path":"/metadata/labels/a"}]'
        ~ patch pod one --type=json -p '[{"op":"remove","path":"/metadata/labels/a"}]'
        ~ patch pod one --type=merge -p '{"spec":{"nodeName":"x","hostname":"y"}}'
        patch pod one --subresource=status --type=merge -p '{"status":{"phase":"Running"}}'
        patch pod one -p '{"metadata":{"labels":{"a":"b"}}}' --dry-run=server -o yaml
        patch pod one -p '{"spec":{"colour":"red"}}'
        patch pod one -p nonsense
        patch pod missing -p '{}'
        wait pod/one --for=condition=Ready --timeout=1s
        wait pod/one --for=jsonpath={.status.phase}=Running --timeout=5s
        wait pod/one --for=create --timeout=1s
        wait pod/missing --for=delete --timeout=1s
        wait pod/missing --for=condition=Ready --timeout=1s
        set image pod/one main=registry.test/one:2
        set image pod/one other=registry.test/one:2
        edit pod one
        replace -f pod.yaml
        replace --force -f pod.yaml
        cordon node-1
        cordon node-1
        uncordon node-1
        taint node node-1 key=value:NoSchedule
        taint node node-1 key=value:NoSchedule
        taint node node-1 key-
        taint node node-1 key-
        drain node-1 --force
        drain node-1 --dry-run=server
        uncordon node-1
        get node node-1
        get node node-1 -o wide
        get node node-1 -o yaml
        get events
        delete pod one --dry-run=server
        delete pod one --dry-run=client
        delete pod one --now
        delete pod one
        delete pod one --ignore-not-found
        delete pods --all
        delete node node-1
    """,
    "events": """
        create -f pod.yaml
        create -f event.yaml
        get events --sort-by=.lastTimestamp
        create -f events.yaml
        get events
        get events --sort-by=.lastTimestamp
        get events --sort-by=.metadata.name
        get events -o wide
        get events -o yaml
        get events.events.k8s.io -o yaml
        get event late -o json
        get events --field-selector reason=Late
        events
        events --types=Warning
        events --for pod/one
        describe pod one
        delete events --all
    """,
    "workloads": """
        apply -f web.yaml
        apply -f web.yaml
        apply -f web2.yaml --dry-run=server
        apply -f web2.yaml --dry-run=client
        diff -f web2.yaml
        apply -f web2.yaml
        apply view-last-applied deploy web
        apply --server-side -f web.yaml
        apply --server-side --force-conflicts -f web.yaml
        apply --server-side --field-manager=me -f web.yaml --dry-run=server
        apply --server-side --field-manager=me -f web2.yaml
        get deploy web
        get deploy web -o wide
        scale deploy web --replicas=5
        scale deploy web --replicas=5 --current-replicas=3
        scale deploy web --replicas=-1
        scale deploy web --replicas=7 --dry-run=server
        scale deploy missing --replicas=1
        get deploy web --subresource=scale -o yaml
        set image deploy/web main=registry.test/web:3
        set env deploy/web KEY=value
        set env deploy/web --list
        set resources deploy/web --limits=cpu=200m
        set serviceaccount deploy/web robot
        rollout status deploy/web --timeout=1s --watch=false
        rollout history deploy/web
        rollout undo deploy/web
        rollout restart deploy/web
        rollout pause deploy/web
        rollout pause deploy/web
        rollout resume deploy/web
        rollout resume deploy/web
        annotate deploy web a=b
        delete deploy web --cascade=orphan --wait=false
        delete deploy web --cascade=foreground --wait=false
        get deploy web
        delete -f web.yaml --ignore-not-found --wait=false --cascade=background
        apply -f bad.yaml
        apply -f unknown.yaml
        apply -f unknown.yaml --validate=false
        apply -f missing.yaml
        apply -f broken.yaml
        create -f banana.yaml
        apply -f list.yaml
        get -f list.yaml
        delete -f list.yaml
        apply -k .
        delete -k .
        create statefulset x
        get ds,sts,rs,rc
    """,
    "refusals": """
        create -f pod.yaml
        logs one
        logs one -c other
        logs missing
        logs one -f
        exec one -- ls
        exec missing -- ls
        attach one
        port-forward pod/one 18080:80
        cp one:/etc/hosts hosts-copy
        cp pod.yaml one:/tmp/x
        debug one --image=registry.test/debug:1
        get pod one -o jsonpath={.spec.ephemeralContainers[*].image}
        get csr
        certificate approve missing
        create -f signing.yaml
        get csr signing
        certificate approve signing
        get csr signing
        certificate deny signing
        describe csr signing
        delete csr signing
    """,
    "more": """
        explain pods
        explain deployment.spec.replicas
        explain cronjob.spec.jobTemplate.spec.template.spec.containers.resources
        explain pods.spec.banana
        explain bananas
        create -f pod.yaml
        create sa robot
        create rolebinding readers --clusterrole=view --serviceaccount=story-more:robot
        set subject rolebinding readers --user=jane
        get rolebinding readers -o wide
        create service clusterip web --tcp=80:8080
        set selector svc/web tier=web
        get svc web -o jsonpath={.spec.selector}
        get svc web --no-headers
        get svc,pods --show-kind -o wide
        get pods -o wide --no-headers
        get pods -o custom-columns-file=missing.txt
        get pods -o banana
        get pods -l 'app in (one, two)' -o name
        get pods -l 'app notin (one),!gone' -o name
        ~ get pods -l '=bad='
        get pods --all-namespaces --field-selector=metadata.name=one -o name
        ~ get --raw /api/v1/namespaces/story-more/pods?limit=banana
        get --raw /apis/apps/v1/namespaces/story-more/deployments/missing
        create -f web.yaml --save-config
        apply set-last-applied -f web.yaml
        apply -f web.yaml --prune -l app=web --prune-allowlist=core/v1/ConfigMap
        rollout history deploy/web --revision=1
        rollout status deploy/missing
        patch deploy web --type=strategic --patch-file=side.yaml
        get deploy web -o jsonpath={.spec.template.spec.containers[*].name}
        patch deploy web --subresource=scale --type=merge -p '{"spec":{"replicas":4}}'
        patch deploy web --subresource=scale --type=merge -p '{"spec":{"replicas":6}}' --dry-run=server
        get deploy web -o jsonpath={.spec.replicas}
        set env deploy/web --from=configmap/missing
        set env deploy/web KEY- --dry-run=server -o name
        create configmap one --from-literal=a=1
        create configmap two --from-literal=a=1 --dry-run=client -o json
        create configmap one --from-literal=a=2 -o yaml --dry-run=server
        label configmap one tier=web
        delete configmap -l tier=web
        delete configmap -l tier=web
        delete pods --field-selector=status.phase=Failed
        delete pod one --grace-period=0 --force
        delete pod one --wait=false --ignore-not-found
        wait --for=delete pod/one --timeout=2s
        delete deploy web --cascade=orphan --wait=false --dry-run=server
        delete all --all --wait=false
        delete banana x
        kustomize .
        create quota q --hard=pods=banana
        create pdb p --selector=app=x
        create role r --verb=get
        create job j
        expose svc missing --port=80
        autoscale deploy missing --max=2
        create ingress bad --rule=x
        annotate pods --all a=b
        cordon missing
        drain missing
        taint nodes missing a=b:NoSchedule
        uncordon missing
    """,
}
